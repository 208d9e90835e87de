"""``plan CONFIG``: how much memory, disk and time a run will take, before it is started."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import add_config_options
from minitransformer.config import Config
from minitransformer.errors import ConfigError

if TYPE_CHECKING:
    from minitransformer.models import Shape
    from minitransformer.planning import Plan

MIB = 1 << 20
DESCRIPTION = """\
Compute the memory that an update takes at its peak: parameters, gradients, Adam, activations, logits. What Python and
its libraries take for themselves is not in it. Then the disk that the run fills, its FLOPs by formula, and the hours
that these would take at training speeds which others have published."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "plan", help="how much memory, disk and time a training will take", description=DESCRIPTION
    )
    add_config_options(parser, "TOML file, as for train")
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

    from minitransformer.models import Shape
    from minitransformer.planning import plan
    from minitransformer.workers import Workers

    sentences = min(config.data.src_tokens, config.data.tgt_tokens) // arguments.length
    shape = Shape(sentences, arguments.length, arguments.length)
    workers = Workers.for_shares(config.training.micro_batches, config.training.threads).size
    precision = config.execution.precision
    plans = {
        f"CPU, {workers} at a time": plan(config.model, shape, workers=workers),
        f"GPU, {precision}": plan(config.model, shape, library="cupy", precision=precision),
    }
    print(_text(config, shape, plans))
    print(*_disk(config), *_hours(config, shape), sep="\n")


def _with_vocabulary(config: Config) -> Config:
    """``config`` with the vocabulary size of its tokenizer, as training would take it."""
    from dataclasses import replace

    from minitransformer.text import Tokenizer

    if not config.data.tokenizer:
        raise ConfigError("model.vocab_size must be given where there is no data.tokenizer, got 0")
    vocab_size = Tokenizer.load(config.data.tokenizer).vocab_size
    return replace(config, model=replace(config.model, vocab_size=vocab_size))


def _text(config: Config, shape: "Shape", plans: "dict[str, Plan]") -> str:
    from minitransformer.planning import parameter_count

    lines = [
        f"{parameter_count(config.model):,} parameters; a micro-batch of {shape.sentences:,} sentences of "
        f"{shape.src_length} + {shape.tgt_length} tokens; MiB",
        _line("", list(plans)),
    ]
    rows = {"parameters": "parameters", "gradients": "gradients", "Adam": "adam", "activations": "activations"}
    rows |= {"half-precision copies": "copies", "largest rule": "largest", "peak": "peak"}
    for name, field in rows.items():
        lines.append(_line(name, [f"{getattr(each, field) / MIB:,.1f}" for each in plans.values()]))
    lines.append(_line("", [each.largest_rule for each in plans.values()]))
    lines.append("The GPU's column comes from the same formulas and was not run on a GPU.")
    return "\n".join(lines)


def _disk(config: Config) -> list[str]:
    """What the run leaves on the disk."""
    from minitransformer.planning import parameter_count

    settings, vectors = config.training, 3  # parameters, and Adam's two
    one = vectors * parameter_count(config.model) * (8 if config.model.dtype == "float64" else 4)
    all_of_them = settings.updates // settings.save_every if settings.save_every else 1
    kept = min(settings.keep_checkpoints or all_of_them, max(1, all_of_them))
    lines = [f"disk: {(kept + 1) * one / 1e9:.2f} GB: {kept} checkpoints of {one / 1e9:.2f} GB and one being written"]
    ids = Path(config.data.train_ids)
    if config.data.train_ids and ids.is_dir():
        lines.append(f"      {sum(path.stat().st_size for path in ids.iterdir()) / 1e9:.2f} GB: {ids}")
    return lines


def _hours(config: Config, shape: "Shape") -> list[str]:
    """FLOPs of all updates, and how long they take at the speeds of `flops.RECORDS`."""
    from minitransformer.planning.flops import RECORDS, batch_flops, expected_hours

    settings = config.training
    flops = batch_flops(config.model, *shape)
    steps = settings.updates * settings.micro_batches
    lines = [
        f"{settings.updates:,} updates of {settings.micro_batches} micro-batches: {steps * flops:.1e} FLOPs by formula",
        f"hours, if they ran at the FLOP/s of published trainings:{'1 GPU':>12}{'8 GPUs':>10}",
    ]
    for record in RECORDS:
        one, eight = expected_hours(
            config.model, steps * shape.sentences * shape.tgt_length, record, length=shape.tgt_length
        )
        lines.append(f"  {record.name:<54}{one:>11,.1f}{eight:>10,.1f}")
    return lines


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<17}" + "".join(f"{cell:>20}" for cell in cells)
