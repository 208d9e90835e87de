"""``plot curves | attention``: pictures of a run or a model, and attention as an HTML page."""

import argparse
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import open_model, print_line, report, writable_file
from minitransformer.cli.options import add_model_options, add_search_options
from minitransformer.config import BOS, EOS
from minitransformer.errors import ConfigError, quoted
from minitransformer.files import write_atomically, write_text

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from minitransformer.figures import Attentions
    from minitransformer.text import Tokenizer

MAX_TOKENS = 250
"""Tokens of a sentence in an attention map: more make a picture that no one can read, or no memory holds."""

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
    _add_output(curves, "PNG or SVG file to write")
    curves.set_defaults(run=run_curves)

    _add_attention(actions)


def _add_attention(actions: argparse._SubParsersAction) -> None:
    attention = actions.add_parser("attention", help="which subwords a model attends to while it translates a sentence")
    add_model_options(attention)
    attention.add_argument("--src", required=True, metavar="TEXT", help="source sentence")
    attention.add_argument("--tgt", metavar="TEXT", help="target sentence (default: the model's own translation)")
    attention.add_argument(
        "--kind",
        choices=tuple(KINDS),
        default="cross",
        help="cross: encoder-decoder attention; decoder, encoder: self-attention (default: cross)",
    )
    attention.add_argument("--layer", type=int, metavar="N", help="layer, counted from 1 (default: the last)")
    shown = "head, counted from 1; can be repeated (default: all)"
    attention.add_argument("--head", type=int, action="append", metavar="N", help=shown)
    shown = "draw lines between two columns of subwords, as Figures 3 to 5 (default: a map with a cell for each weight)"
    attention.add_argument("--lines", action="store_true", help=shown)
    shown = "with --lines: attending subword, counted from 1; can be repeated (default: all)"
    attention.add_argument("--query", type=int, action="append", metavar="N", help=shown)
    add_search_options(attention)
    _add_output(attention, "PNG, SVG or HTML file to write; a page in HTML shows all kinds, layers and heads")
    attention.set_defaults(run=run_attention)


def _add_output(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=what)


def _checked_output(path: Path, inputs: Iterable[Path], suffixes: Sequence[str] = PICTURES) -> Path:
    """`writable_file`; ConfigError if its suffix names no format."""
    output = writable_file(path, inputs)
    if output.suffix.lower() not in suffixes:
        raise ConfigError(f"output must end in {', '.join(suffixes)}, got {quoted(output.name, 60)}")
    return output


def run_curves(arguments: argparse.Namespace) -> None:
    from minitransformer.figures import draw_learning_curves
    from minitransformer.training import read_metrics

    named = [_label_and_path(argument) for argument in arguments.metrics]
    output = _checked_output(arguments.output, [path for _, path in named])
    labels = [label for label, _ in named]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"plot curves: every run must have its own label, got {', '.join(labels)}; write LABEL=FILE")
    _save(draw_learning_curves({label: read_metrics(path) for label, path in named}), output, arguments.action)


def _label_and_path(argument: str) -> tuple[str, Path]:
    """Parses ``LABEL=FILE``; a file without a label gets the name of its folder, as all are named metrics.jsonl."""
    label, equals, path = argument.partition("=")
    if equals and not Path(argument).exists():
        return label, _metrics_of(Path(path))
    path = _metrics_of(Path(argument))
    return path.resolve().parent.name or argument, path


def _metrics_of(path: Path) -> Path:
    """``path``, or the metrics in it, if it is the folder of a run."""
    return path / "metrics.jsonl" if path.is_dir() else path


def run_attention(arguments: argparse.Namespace) -> None:
    from minitransformer.figures import attention_page, draw_attention, draw_attention_lines

    output = _checked_output(arguments.output, [arguments.checkpoint], (*PICTURES, ".html"))
    is_page = output.suffix.lower() == ".html"
    if arguments.query and (is_page or not arguments.lines):
        raise ConfigError("plot attention: --query must stand with --lines and a PNG or SVG file")
    kinds, layer, n_layers = _attentions(arguments)
    shown = kinds[arguments.kind]
    if is_page:
        first = {"kind": arguments.kind, "layer": layer, "heads": arguments.head}
        write_text(output, attention_page(kinds, title=f"Attention in {arguments.checkpoint.name}", **first))
        report(str(output))
        return
    options = {"title": f"{shown.label}, layer {layer} of {n_layers}", "heads": arguments.head}
    options |= {"key_label": shown.key_label, "query_label": shown.query_label}
    draw = draw_attention
    if arguments.lines:
        draw, options = draw_attention_lines, options | {"queries": arguments.query}
    _save(draw(shown.layers[layer], shown.keys, shown.queries, **options), output, arguments.action)


def _attentions(arguments: argparse.Namespace) -> "tuple[dict[str, Attentions], int, int]":
    """The attentions of the model by the keys of KINDS; the layer that is asked for; the number of layers.

    Raises:
        ConfigError: there is no such layer or kind, or a sentence is too long.
    """
    from minitransformer.generation import hypothesis_attention, search_lines

    model, tokenizer, search = open_model(arguments)
    n_layers = model.config.n_layers
    layer = n_layers if arguments.layer is None else arguments.layer
    if not 1 <= layer <= n_layers:
        raise ConfigError(f"plot attention: --layer must be from 1 to {n_layers}, got {layer}")
    if arguments.tgt is None:
        # The generated ids: encoding their text again might split the same words differently.
        target = search_lines(model, tokenizer, [arguments.src], search)[0][0].ids
    else:
        target = tokenizer.encode(arguments.tgt)
    source = tokenizer.encode(arguments.src)
    for name, ids in (("--src", source), ("--tgt", target)):
        if len(ids) > MAX_TOKENS:
            raise ConfigError(
                f"plot attention: {name} must have at most {MAX_TOKENS} tokens, got {len(ids)}; shorten it"
            )
    maps, name = hypothesis_attention(model, source, target), KINDS[arguments.kind][1].format(layer - 1)
    if name not in maps:
        has = ", ".join(maps)
        raise ConfigError(f"plot attention: the model must have {name}, got {has}; change --kind or --layer")
    return _by_kind(maps, n_layers, source, target, tokenizer), layer, n_layers


def _by_kind(
    maps: "Mapping[str, np.ndarray]",
    n_layers: int,
    source: Sequence[int],
    target: Sequence[int],
    tokenizer: "Tokenizer",
) -> "dict[str, Attentions]":
    """The maps of `hypothesis_attention`, with labels, by those keys of KINDS that the model has."""
    from minitransformer.figures import Attentions

    src, tgt_in, tgt_out = map(tokenizer.subwords, ([*source, EOS], [BOS, *target], [*target, EOS]))
    generated, source_side = ("target subword, as it is generated", tgt_out), ("source subword", src)
    sides = {
        "cross": (*generated, *source_side),
        "decoder": (*generated, "target subword, already generated", tgt_in),
        "encoder": (*source_side, *source_side),
    }
    found = {}
    for kind, (label, name) in KINDS.items():
        layers = {n + 1: maps[name.format(n)] for n in range(n_layers) if name.format(n) in maps}
        if layers:
            found[kind] = Attentions(label, *sides[kind], layers)
    return found


def _save(figure: "Figure", output: Path, action: str) -> None:
    from minitransformer.figures import picture_bytes

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        picture = picture_bytes(figure, output.suffix.lower()[1:])
    for warning in caught:
        print_line(f"plot {action}", str(warning.message))
    write_atomically(output, lambda file: file.write(picture))
    report(str(output))
