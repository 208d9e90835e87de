"""The ranks of the benchmark: python -m benchmarks.scaling.rank SIZE TASK; rank 0 prints JSON.

SIZE 0: this is one process, or one rank of mpiexec; otherwise SIZE ranks are launched on this machine.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.common.work import SIZES, halves, random_batch
from minitransformer.allocator import keep_freed_memory
from minitransformer.cli.common import explain, print_line
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS, Communicator, ProcessGroup, init_process_group
from minitransformer.distributed.launch import launch
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.training import GradientAccumulator, train_step
from minitransformer.workers import Workers


def timed(ranks: Communicator, act: Callable[[], object]) -> float:
    """Seconds until the last rank has finished the work."""
    ranks.barrier()
    began = time.perf_counter()
    act()
    ranks.barrier()
    return time.perf_counter() - began


def sum_times(ranks: Communicator, lengths: list[int], repeats: int) -> list[dict]:
    """Lowest seconds of the sum of a vector."""
    rows = []
    for length in lengths:
        vector = np.zeros(length, np.float32)
        times = [timed(ranks, lambda vector=vector: ranks.all_reduce_sum(vector)) for _ in range(repeats + 2)]
        rows.append({"bytes": 4 * length, "seconds": min(times[2:])})  # the first ones warm up
    return rows


def step_times(ranks: Communicator, size_name: str, quick: bool, rounds: int, workers: int) -> dict:
    """Lowest seconds of an update, with the sum over ranks and without."""
    size = next(size for size in SIZES if size.name == size_name)
    if quick:
        size = replace(size, model=ModelConfig(vocab_size=100, n_layers=1, d_model=32, d_ff=64, n_heads=2), sentences=4)
    batch = random_batch(size)
    batches = halves(batch)[ranks.rank :: ranks.size] if ranks.size > 1 or workers > 1 else [batch]
    model, threads = Transformer(size.model, seed=1), Workers(workers)
    adam = Adam(model.parameters)
    updates = iter(range(1, 10**6))

    def step(together: Communicator) -> None:
        accumulator = GradientAccumulator(
            model.parameters, workers=threads, ranks=together, tokens_of_update=lambda update: batch.n_tgt_tokens
        )
        train_step(model, adam, batches, update=next(updates), config=TrainingConfig(), accumulator=accumulator)

    times: dict[str, list[float]] = {"alone": [], "sum": []}
    for number in range(rounds + 1):
        for name, together in (("alone", SINGLE_PROCESS), ("sum", ranks)):
            seconds = timed(ranks, partial(step, together))
            if number > 0:  # the first round pays for fresh memory
                times[name].append(seconds)
    return {"parameters": model.parameters.count} | {name: min(each) for name, each in times.items()}


def measure(task: dict, process_group: ProcessGroup) -> int:
    """The work of one rank."""
    keep_freed_memory()
    what = {"sum": sum_times, "step": step_times}[task.pop("what")]
    ranks = process_group.connect(TrainingConfig(micro_batches=max(2, process_group.size)))
    result = what(ranks, **task)
    if ranks.rank == 0:
        print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    n_ranks, work = int(sys.argv[1]), partial(measure, json.loads(sys.argv[2]))
    if n_ranks:
        sys.exit(launch(work, n_ranks, partial(print_line, "scaling"), explain))
    with init_process_group(partial(print_line, "scaling")).join(explain) as group:
        work(group)
