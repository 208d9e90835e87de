"""Fewer, larger micro-batches for an update on one GPU, where small ones leave it waiting for the host."""

import math

from minitransformer.config import Config
from minitransformer.planning.memory import Shape, plan

LARGE = 13_600  # tokens; from here on, by the forecast, the kernels of base take longer than the host to launch them
FEWEST = 2  # an update of one micro-batch has sentences of one length, and learns worse (benchmarks/notes.md)
SHARE = 0.8  # of the GPU's memory


def larger_micro_batches(config: Config, memory: float = math.inf, length: int = 32) -> str | None:
    """A line with the settings that make each update of as many tokens from fewer micro-batches; None where those of
    ``config`` are large or few already, or the GPU has no room.

    memory: of the GPU, bytes   length: tokens of a sentence
    """
    count, tokens = config.training.micro_batches, (config.data.src_tokens, config.data.tgt_tokens)
    if min(tokens) >= LARGE:
        return None
    for fewer in (n for n in range(FEWEST, count) if count % n == 0):
        src, tgt = (count // fewer * n for n in tokens)
        shape = Shape(max(1, min(src, tgt) // length), length, length)
        peak = plan(config.model, shape, library="cupy", precision=config.execution.precision).peak
        if peak < SHARE * memory:
            needs, launches = f"{peak / SHARE / 2**30:.1f} GiB", f"{fewer / count:.0%} of the launches"
            return (
                f"a GPU with {needs} is faster with {fewer} larger micro-batches and {launches}: "
                f"--set training.micro_batches={fewer} --set data.src_tokens={src} --set data.tgt_tokens={tgt}; the "
                "batches differ, so the result is not the same bit for bit"
            )
    return None
