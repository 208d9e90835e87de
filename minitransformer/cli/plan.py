"""``plan CONFIG``: how much memory, disk and time a run will take, before it is started."""

import argparse
import math
from functools import partial
from typing import TYPE_CHECKING

from minitransformer.cli.common import with_vocabulary
from minitransformer.cli.options import add_config_options, add_number, at_least_one
from minitransformer.config import Config
from minitransformer.errors import ConfigError

if TYPE_CHECKING:
    from minitransformer.planning import MemoryPlan

MIB, GIB = 1 << 20, 1 << 30
DESCRIPTION = """\
Predict the peak memory of an update on the CPU by running small batches: parameters, gradients, Adam, activations,
working memory. The memory of Python and its libraries is not included. GPU kernels keep less (half precision: half as
much), but more logits: --memory leaves room for them if execution.device is cuda. Then print the disk space of the run,
its FLOPs by formula, and the hours that these take."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "plan", help="how much memory, disk and time a training will take", description=DESCRIPTION
    )
    add_config_options(parser, "TOML file, as for train")
    shown = "tokens of a sentence on either side; a batch has as many sentences as fit"
    add_number(parser, "--length", 32, shown)
    number = partial(at_least_one, kind=float)
    shown = "memory of a card or machine, GiB: prints the largest micro-batch that fits (default: none)"
    parser.add_argument("--memory", type=number, metavar="GIB", help=shown)
    shown = "sustained speed of training, TFLOP/s (default: that of a large product, measured now)"
    parser.add_argument("--tflops", type=float, metavar="X", help=shown)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    config = with_vocabulary(Config.load(arguments.config, arguments.settings))
    longest = min(config.data.src_tokens, config.data.tgt_tokens, config.data.max_length)
    if arguments.length > longest:
        raise ConfigError(
            f"--length must be at most {longest}, the tokens of a micro-batch and data.max_length, "
            f"got {arguments.length}"
        )
    if arguments.tflops is not None and not 0 < arguments.tflops < 1e9:
        raise ConfigError(f"--tflops must be a positive number, got {arguments.tflops}")

    from minitransformer.planning import plan_memory
    from minitransformer.workers import Workers

    sentences = min(config.data.src_tokens, config.data.tgt_tokens) // arguments.length
    shape = (sentences, arguments.length, arguments.length)
    workers = Workers.for_shares(config.training.micro_batches, config.training.threads).size
    found = plan_memory(config.model, *shape, workers)
    print(*_memory(config, shape, workers, found), sep="\n")
    if arguments.memory:
        print(_room(config, sentences, arguments.length, found, arguments.memory))
    print(_disk(config, found), *_hours(config, shape, arguments.tflops), sep="\n")


def _memory(config: Config, shape: tuple[int, int, int], workers: int, found: "MemoryPlan") -> list[str]:
    """The peak of an update and its parts."""
    from minitransformer.planning import parameter_count

    parts = "parameters", "gradients", "adam", "activations", "working", "peak"
    return [
        f"{parameter_count(config.model):,} parameters; micro-batches of {shape[0]:,} sentences of "
        f"{shape[1]} + {shape[2]} tokens, {workers} at a time; MiB",
        *(f"{part:<12}{getattr(found, part) / MIB:>12,.1f}" for part in parts),
    ]


def _room(config: Config, sentences: int, length: int, found: "MemoryPlan", memory: float) -> str:
    """The largest micro-batch of ``memory`` GiB. Kernels of a GPU hold more logits than the plan, which is a CPU's."""
    from minitransformer.kernels.cupy.projection_loss import CARD_SHARE, MAX_CHUNK_BYTES

    logits = min(MAX_CHUNK_BYTES, memory * GIB / CARD_SHARE) if config.execution.device == "cuda" else 0
    most = sentences + int((memory * GIB - logits - found.peak) // found.per_sentence)
    if most < 1:
        needs = (found.peak + logits - (sentences - 1) * found.per_sentence) / GIB
        return f"{memory:g} GiB has no room for one sentence, which needs {needs:.1f} GiB; take a smaller model"
    return f"{memory:g} GiB has room for {most:,} sentences, {most * length:,} tokens on each side"


def _disk(config: Config, found: "MemoryPlan") -> str:
    """What the run leaves on the disk."""
    settings, one = config.training, found.parameters + found.adam  # bytes of a checkpoint
    updates, every = settings.updates, [settings.save_every, settings.validate_every if config.data.valid_src else 0]
    every = [each for each in every if each]
    twice = updates // math.lcm(*every) if len(every) > 1 else 0
    written = sum(updates // each for each in every) - twice + all(updates % each for each in every)  # and the last
    kept = min(settings.keep_checkpoints or written, max(1, written))
    return f"disk: {(kept + 1) * one / 1e9:.2f} GB: {kept} checkpoints of {one / 1e9:.2f} GB and one being written"


def _hours(config: Config, shape: tuple[int, int, int], tflops: float | None) -> list[str]:
    """FLOPs of all updates, and how long they take."""
    import numpy as np

    from minitransformer.planning.flops import batch_flops, measure_rate

    settings = config.training
    flops = settings.updates * settings.micro_batches * batch_flops(config.model, *shape)
    rate = tflops * 1e12 if tflops else measure_rate(np)
    whose = "" if tflops else ", as of a large float32 product on this CPU"
    return [
        f"{settings.updates:,} updates of {settings.micro_batches} micro-batches: {flops:.1e} FLOPs by formula",
        f"{flops / rate / 3600:,.1f} hours at {rate / 1e12:.3g} TFLOP/s{whose}",
    ]
