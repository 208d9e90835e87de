"""``plan CONFIG``: how much memory a run will take, before it is started."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.config import Config
from minitransformer.errors import ConfigError

if TYPE_CHECKING:
    from minitransformer.training.memory import Plan, Shape

MIB = 1 << 20
DESCRIPTION = """\
Compute the memory that an update takes at its peak: parameters, gradients, Adam, activations, logits. What Python and
its libraries take for themselves is not in it."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("plan", help="how much memory a training will take", description=DESCRIPTION)
    parser.add_argument("config", type=Path, metavar="CONFIG", help="TOML file, as for train")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="SECTION.KEY=VALUE",
        help="overrides a key of CONFIG; may be given several times (default: CONFIG alone)",
    )
    parser.add_argument(
        "--length",
        type=int,
        default=32,
        metavar="N",
        help="tokens of a sentence on either side; a batch has as many sentences as fit (default: 32)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    config = Config.load(arguments.config, arguments.settings)
    if config.model.vocab_size == 0:
        config = _with_vocabulary(config)
    if not 1 <= arguments.length <= min(config.data.src_tokens, config.data.tgt_tokens):
        raise ConfigError(f"--length must be from 1 to the tokens of a micro-batch, got {arguments.length}")

    from minitransformer.distributed import Workers
    from minitransformer.training.memory import Shape, plan

    sentences = min(config.data.src_tokens, config.data.tgt_tokens) // arguments.length
    shape = Shape(sentences, arguments.length, arguments.length)
    workers = Workers.for_shares(config.training.micro_batches, config.training.threads).size
    precision = config.training.precision
    plans = {
        f"CPU, {workers} at a time": plan(config.model, shape, workers=workers),
        f"GPU, {precision}": plan(config.model, shape, library="cupy", precision=precision),
    }
    print(_text(config, shape, plans))


def _with_vocabulary(config: Config) -> Config:
    """``config`` with the vocabulary size of its tokenizer, as training would take it."""
    from dataclasses import replace

    from minitransformer.text import Tokenizer

    if not config.data.tokenizer:
        raise ConfigError("model.vocab_size must be given where there is no data.tokenizer, got 0")
    pieces = Tokenizer.load(config.data.tokenizer).vocab_size
    return replace(config, model=replace(config.model, vocab_size=pieces))


def _text(config: Config, shape: Shape, plans: dict[str, Plan]) -> str:
    from minitransformer.training.memory import parameter_count

    lines = [
        f"{parameter_count(config.model):,} parameters; a micro-batch of {shape.sentences:,} sentences of "
        f"{shape.src_length} + {shape.tgt_length} tokens; MiB",
        _line("", list(plans)),
    ]
    rows = {"parameters": "parameters", "gradients": "gradients", "Adam": "adam", "activations": "activations"}
    rows |= {"copies in halves": "copies", "largest rule": "largest", "peak": "peak"}
    for name, field in rows.items():
        lines.append(_line(name, [f"{getattr(each, field) / MIB:,.1f}" for each in plans.values()]))
    lines.append(_line("", [each.largest_rule for each in plans.values()]))
    lines.append("The GPU's column comes from the same formulas and was not run on a GPU.")
    return "\n".join(lines)


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<17}" + "".join(f"{cell:>20}" for cell in cells)
