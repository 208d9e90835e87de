"""``plan CONFIG``: how much memory, disk and time a run will take, before it is started."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import with_vocabulary
from minitransformer.cli.options import add_config_options, add_number
from minitransformer.config import Config
from minitransformer.errors import ConfigError

if TYPE_CHECKING:
    from minitransformer.planning import Plan, Shape

MIB = 1 << 20
DESCRIPTION = """\
Compute the peak memory of an update: parameters, gradients, Adam, activations, logits. The memory of Python and its
libraries is not included. Then the disk space of the run, its FLOPs by formula, and the hours that these would take at
published training speeds."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "plan", help="how much memory, disk and time a training will take", description=DESCRIPTION
    )
    add_config_options(parser, "TOML file, as for train")
    shown = "tokens of a sentence on either side; a batch has as many sentences as fit"
    add_number(parser, "--length", 32, shown)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    config = with_vocabulary(Config.load(arguments.config, arguments.settings))
    if not 1 <= arguments.length <= min(config.data.src_tokens, config.data.tgt_tokens):
        raise ConfigError(f"--length must be from 1 to the tokens of a micro-batch, got {arguments.length}")

    from minitransformer.planning import Shape, plan
    from minitransformer.workers import Workers

    sentences = min(config.data.src_tokens, config.data.tgt_tokens) // arguments.length
    shape = Shape(sentences, arguments.length, arguments.length)
    workers = Workers.for_shares(config.training.micro_batches, config.training.threads).size
    precision = config.execution.precision
    plans = {
        f"CPU, {workers} at a time": plan(config.model, shape, workers=workers),
        f"GPU, {precision}": plan(config.model, shape, library="cupy", precision=precision),
    }
    print(*_memory(config, shape, plans), *_disk(config, plans), *_hours(config, shape), sep="\n")


def _memory(config: Config, shape: "Shape", plans: "dict[str, Plan]") -> list[str]:
    """The peak of an update and its parts, a column for each plan."""
    from minitransformer.planning import parameter_count
    from minitransformer.planning.memory import packed_bytes

    rows = {"parameters": "parameters", "gradients": "gradients", "Adam": "adam", "activations": "activations"}
    rows |= {"half-precision copies": "copies", "largest rule": "largest", "peak": "peak"}
    packed = packed_bytes(config.model) / MIB
    return [
        f"{parameter_count(config.model):,} parameters; a micro-batch of {shape.sentences:,} sentences of "
        f"{shape.src_length} + {shape.tgt_length} tokens; MiB",
        _line("", plans),
        *(_line(name, [f"{getattr(each, part) / MIB:,.1f}" for each in plans.values()]) for name, part in rows.items()),
        _line("", [each.largest_rule for each in plans.values()]),
        "The GPU's column comes from the same formulas and was not run on a GPU.",
        f"Translating on this CPU takes at most {packed:,.1f} MiB more, for packed copies of matrices.",
    ]


def _disk(config: Config, plans: "dict[str, Plan]") -> list[str]:
    """What the run leaves on the disk."""
    settings, (plan, *_) = config.training, plans.values()
    one = plan.parameters + plan.adam  # bytes of a checkpoint
    written = settings.updates // settings.save_every if settings.save_every else 1
    kept = min(settings.keep_checkpoints or written, max(1, written))
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
    tgt_tokens = steps * shape.sentences * shape.tgt_length
    for record in RECORDS:
        one, eight = expected_hours(config.model, tgt_tokens, record, length=shape.tgt_length)
        lines.append(f"  {record.name:<54}{one:>11,.1f}{eight:>10,.1f}")
    return lines


def _line(name: str, cells: Iterable[str]) -> str:
    return f"{name:<17}" + "".join(f"{cell:>20}" for cell in cells)
