"""``plot curves | attention``: pictures of a run or a model, and attention as an HTML page."""

import argparse
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import open_model, print_line, report, writable_file
from minitransformer.cli.options import add_model_options, add_output_option, add_search_options
from minitransformer.config import BOS, EOS, TranslationConfig
from minitransformer.errors import ConfigError, quote
from minitransformer.files import write_atomically, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from minitransformer.figures import Attentions
    from minitransformer.models import Model
    from minitransformer.text import Tokenizer

MAX_TOKENS = 250
"""Maximum tokens of a sentence in an attention map: with more, the picture is unreadable or too large for memory."""

KINDS = {
    "cross": ("encoder-decoder attention", "decoder.{}.cross_attention"),
    "decoder": ("decoder self-attention", "decoder.{}.self_attention"),
    "encoder": ("encoder self-attention", "encoder.{}.self_attention"),
}
PICTURES = (".png", ".svg")


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("plot", help="draw learning curves or attention")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    curves = actions.add_parser("curves", help="loss and perplexity against the update, for one or more runs")
    shown = "training.directory of a run, or its metrics.jsonl; LABEL=FILE sets its label in the legend"
    curves.add_argument("metrics", nargs="+", metavar="METRICS", help=shown)
    add_output_option(curves, "PNG or SVG file to write")
    curves.set_defaults(run=run_curves)

    _add_attention(actions)


def _add_attention(actions: argparse._SubParsersAction) -> None:
    attention = actions.add_parser("attention", help="which subwords a model attends to while it translates a sentence")
    add_model_options(attention)
    attention.add_argument("--src", required=True, metavar="TEXT", help="source sentence")
    attention.add_argument("--tgt", metavar="TEXT", help="target sentence (default: the model's own translation)")
    shown = "cross: encoder-decoder attention; decoder, encoder: self-attention (default: cross)"
    attention.add_argument("--kind", choices=tuple(KINDS), default="cross", help=shown)
    attention.add_argument("--layer", type=int, metavar="N", help="layer, counted from 1 (default: the last)")
    shown = "head, counted from 1; can be repeated (default: all)"
    attention.add_argument("--head", type=int, action="append", metavar="N", help=shown)
    shown = "draw lines between two columns of subwords, as in Figures 3-5 (default: a map with a cell for each weight)"
    attention.add_argument("--lines", action="store_true", help=shown)
    add_search_options(attention)
    add_output_option(attention, "PNG, SVG or HTML file to write; a page in HTML shows all kinds, layers and heads")
    attention.set_defaults(run=run_attention)


def check_picture(path: Path, inputs: Iterable[Path], suffixes: Sequence[str] = PICTURES) -> Path:
    """`writable_file`; ConfigError if its suffix names no format."""
    output = writable_file(path, inputs)
    if output.suffix.lower() not in suffixes:
        raise ConfigError(f"output must end in {', '.join(suffixes)}, got {quote(output.name, 60)}")
    return output


def run_curves(arguments: argparse.Namespace) -> None:
    from minitransformer.figures import draw_learning_curves
    from minitransformer.training import read_metrics

    named = [_label_and_path(argument) for argument in arguments.metrics]
    output = check_picture(arguments.output, [path for _, path in named])
    labels = [label for label, _ in named]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"plot curves: every run must have its own label, got {', '.join(labels)}; write LABEL=FILE")
    figure = draw_learning_curves({label: read_metrics(path) for label, path in named})
    save_picture(figure, output, partial(print_line, "plot curves"))


def _label_and_path(argument: str) -> tuple[str, Path]:
    """Parses ``LABEL=FILE``; a file without a label gets the name of its folder, as all are named metrics.jsonl."""
    label, equals, name = argument.partition("=")
    if not equals or Path(argument).exists():
        label, name = "", argument
    path = Path(name) / "metrics.jsonl" if Path(name).is_dir() else Path(name)
    return label or path.resolve().parent.name or argument, path


def run_attention(arguments: argparse.Namespace) -> None:
    from minitransformer.figures import attention_page, draw_attention, draw_attention_lines

    output = check_picture(arguments.output, [arguments.checkpoint], (*PICTURES, ".html"))
    model, tokenizer, search = open_model(arguments)
    n_layers = model.config.n_layers
    layer = n_layers if arguments.layer is None else arguments.layer
    if not 1 <= layer <= n_layers:
        raise ConfigError(f"plot attention: --layer must be from 1 to {n_layers}, got {layer}")
    kinds = _attentions(model, tokenizer, *_sentences(arguments, model, tokenizer, search))
    shown = kinds.get(arguments.kind)
    if shown is None or layer not in shown.layers:
        has = ", ".join(f"{kind} {number}" for kind, each in kinds.items() for number in each.layers)
        wanted = f"attention {arguments.kind} {layer}"
        raise ConfigError(f"plot attention: the model must have {wanted}, got {has}; change --kind or --layer")
    if output.suffix.lower() == ".html":
        first = {"kind": arguments.kind, "layer": layer, "heads": arguments.head}
        write_text(output, attention_page(kinds, title=f"Attention in {arguments.checkpoint.name}", **first))
        report(str(output))
        return
    options = {"title": f"{shown.label}, layer {layer} of {n_layers}", "heads": arguments.head}
    options |= {"key_label": shown.key_label, "query_label": shown.query_label}
    draw = draw_attention_lines if arguments.lines else draw_attention
    figure = draw(shown.layers[layer], shown.keys, shown.queries, **options)
    save_picture(figure, output, partial(print_line, "plot attention"))


def _sentences(
    arguments: argparse.Namespace, model: "Model", tokenizer: "Tokenizer", search: TranslationConfig
) -> tuple[list[int], list[int]]:
    """The ids of --src and of --tgt, or of the model's translation; ConfigError if one is too long."""
    from minitransformer.generation import search_lines

    if arguments.tgt is None:
        # The generated ids: encoding their text again might split the same words differently.
        target = search_lines(model, tokenizer, [arguments.src], search)[0][0].ids
    else:
        target = tokenizer.target.encode(arguments.tgt)
    source = tokenizer.encode(arguments.src)
    for name, ids in (("--src", source), ("--tgt", target)):
        if len(ids) > MAX_TOKENS:
            raise ConfigError(
                f"plot attention: {name} must have at most {MAX_TOKENS} tokens, got {len(ids)}; shorten it"
            )
    return source, target


def _attentions(
    model: "Model", tokenizer: "Tokenizer", source: Sequence[int], target: Sequence[int]
) -> "dict[str, Attentions]":
    """The attentions that the model has, by the keys of KINDS, with labels."""
    from minitransformer.figures import Attentions
    from minitransformer.generation import hypothesis_attention

    src = tokenizer.subwords([*source, EOS])
    tgt_in, tgt_out = map(tokenizer.target.subwords, ([BOS, *target], [*target, EOS]))
    generated, source_side = ("target subword, as it is generated", tgt_out), ("source subword", src)
    sides = {
        "cross": (*generated, *source_side),
        "decoder": (*generated, "target subword, already generated", tgt_in),
        "encoder": (*source_side, *source_side),
    }
    maps, found = hypothesis_attention(model, source, target), {}
    for kind, (label, name) in KINDS.items():
        names = {n + 1: name.format(n) for n in range(model.config.n_layers)}
        layers = {n: maps[name] for n, name in names.items() if name in maps}
        if layers:
            found[kind] = Attentions(label, *sides[kind], layers)
    return found


def save_picture(figure: "Figure", output: Path, say: Callable[[str], None]) -> None:
    """Write a PNG or SVG file.   say: called with each warning, such as about letters that no font has"""
    from minitransformer.figures import picture_bytes

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        picture = picture_bytes(figure, output.suffix.lower()[1:])
    for warning in caught:
        say(str(warning.message))
    write_atomically(output, lambda file: file.write(picture))
    report(str(output))
