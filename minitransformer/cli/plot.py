"""``plot curves | attention``: learning curves of runs and attention maps of a model, as PNG."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import open_model, writable_file
from minitransformer.cli.options import add_model_options, add_search_options
from minitransformer.config import BOS, EOS
from minitransformer.errors import ConfigError
from minitransformer.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_TOKENS = 250
"""Tokens of a sentence in an attention map: more make a picture that no one can read, or no memory holds."""

KINDS = {
    "cross": "decoder.{}.cross_attention",
    "decoder": "decoder.{}.self_attention",
    "encoder": "encoder.{}.self_attention",
}


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("plot", help="draw learning curves or attention maps")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    curves = actions.add_parser("curves", help="loss and perplexity against the update, for one or more runs")
    shown = "metrics.jsonl of a run; LABEL=FILE sets its label in the legend"
    curves.add_argument("metrics", nargs="+", metavar="METRICS", help=shown)
    _add_output(curves)
    curves.set_defaults(run=run_curves)

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
    add_search_options(attention)
    _add_output(attention)
    attention.set_defaults(run=run_attention)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PNG", help="PNG file to write")


def run_curves(arguments: argparse.Namespace) -> None:
    from minitransformer.figures import draw_learning_curves
    from minitransformer.training import read_metrics

    named = [_label_and_path(argument) for argument in arguments.metrics]
    output = writable_file(arguments.output, [path for _, path in named])
    labels = [label for label, _ in named]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"plot curves: every run must have its own label, got {', '.join(labels)}; write LABEL=FILE")
    _save(draw_learning_curves({label: read_metrics(path) for label, path in named}), output)


def _label_and_path(argument: str) -> tuple[str, Path]:
    """Parses ``LABEL=FILE``; a file without a label gets the name of its folder, as all are named metrics.jsonl."""
    label, equals, path = argument.partition("=")
    if equals and not Path(argument).exists():
        return label, Path(path)
    return Path(argument).resolve().parent.name or argument, Path(argument)


def run_attention(arguments: argparse.Namespace) -> None:
    from minitransformer.figures import draw_attention
    from minitransformer.generation import hypothesis_attention, search_lines

    output = writable_file(arguments.output, [arguments.checkpoint])
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
    maps, name = hypothesis_attention(model, source, target), KINDS[arguments.kind].format(layer - 1)
    if name not in maps:
        has = ", ".join(maps)
        raise ConfigError(f"plot attention: the model must have {name}, got {has}; change --kind or --layer")
    weights = maps[name]  # (H, Tq, Tk)
    src, tgt_in, tgt_out = map(tokenizer.subwords, ([*source, EOS], [BOS, *target], [*target, EOS]))
    generated, source_side = ("target subword, as it is generated", tgt_out), ("source subword", src)
    (query_label, queries), (key_label, keys) = {
        "cross": (generated, source_side),
        "decoder": (generated, ("target subword, already generated", tgt_in)),
        "encoder": (source_side, source_side),
    }[arguments.kind]
    where = "encoder-decoder attention" if arguments.kind == "cross" else f"{arguments.kind}, self-attention"
    title = f"{where}, layer {layer} of {n_layers}"
    labels = {"title": title, "key_label": key_label, "query_label": query_label}
    _save(draw_attention(weights, keys, queries, heads=arguments.head, **labels), output)


def _save(figure: "Figure", output: Path) -> None:
    from minitransformer.figures import png_bytes

    write_atomically(output, lambda file: file.write(png_bytes(figure)))
    print(output)
