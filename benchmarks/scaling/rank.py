"""One rank of the benchmark, alone or started by mpiexec: python -m benchmarks.scaling.rank TASK; rank 0 prints JSON"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.common.work import SIZES, random_work
from minitransformer.allocator import keep_freed_memory
from minitransformer.cli.common import explained, print_line
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.distributed import (
    SINGLE_PROCESS,
    Communicator,
    OverlappedAllReduce,
    ProcessGroup,
    init_process_group,
)
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.training import GradientAccumulator, train_step
from minitransformer.workers import Workers


def timed(ranks: Communicator, act: Callable[[], object]) -> float:
    """Seconds until the last rank has done it."""
    ranks.barrier()
    began = time.perf_counter()
    act()
    ranks.barrier()
    return time.perf_counter() - began


class Vector:
    """What OverlappedAllReduce needs of a gradient vector."""

    def __init__(self, length: int):
        self.vector, self.slices = np.zeros(length, np.float32), {}


def all_reduce_times(ranks: Communicator, tcp: Communicator, lengths: list[int], repeats: int) -> list[dict]:
    """Lowest seconds of the sum of a gradient vector by MPI and by TCP, and of MPI's own call on it, in turn."""
    from mpi4py import MPI

    rows = []
    for length in lengths:
        gradients = Vector(length)
        acts = {
            "ours": lambda gradients=gradients: OverlappedAllReduce(gradients, ranks).finish(),
            "tcp": lambda gradients=gradients: OverlappedAllReduce(gradients, tcp).finish(),
            "bare": lambda gradients=gradients: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, gradients.vector),
        }
        times: dict[str, list[float]] = {name: [] for name in acts}
        for number in range(repeats + 2):
            for name, act in acts.items():
                seconds = timed(ranks, act)
                if number > 1:  # the first ones warm up
                    times[name].append(seconds)
        rows.append({"bytes": 4 * length} | {name: min(each) for name, each in times.items()})
    return rows


def step_times(ranks: Communicator, tcp: Communicator, size_name: str, quick: bool, rounds: int, workers: int) -> dict:
    """Lowest seconds of an update: sums by MPI with overlap and without, by TCP, and with no sum over ranks."""
    size = next(size for size in SIZES if size.name == size_name)
    model_config = ModelConfig(vocab_size=100, n_layers=1, d_model=32, d_ff=64, n_heads=2) if quick else size.model
    work = random_work(type(size)(size.name, model_config, 4 if quick else size.sentences, size.tokens, rounds))
    parts, whole = work.side_by_side[0], work.in_turn[0]
    batches = parts[ranks.rank :: ranks.size] if ranks.size > 1 or workers > 1 else whole
    model = Transformer(model_config, seed=1)
    threads = Workers(workers)
    adam = Adam(model.parameters, workers=threads)
    n_tokens = (size.tokens * len(whole[0].src),) * 2
    updates = iter(range(1, 10**6))

    def step(together: Communicator, overlap: bool) -> None:
        accumulator = GradientAccumulator(
            model.parameters, workers=threads, ranks=together, overlap=overlap, tokens_of_update=lambda update: n_tokens
        )
        train_step(model, adam, batches, update=next(updates), config=TrainingConfig(), accumulator=accumulator)

    acts = {"alone": lambda: step(SINGLE_PROCESS, False)}
    if ranks.size > 1:
        acts |= {"overlap": lambda: step(ranks, True), "no overlap": lambda: step(ranks, False)}
        acts |= {"tcp": lambda: step(tcp, True)}
    times: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds + 1):
        for name, act in acts.items():
            seconds = timed(ranks, act)
            if number > 0:  # the first round pays for fresh memory
                times[name].append(seconds)
    return {"parameters": model.parameters.count} | {name: min(each) for name, each in times.items()}


def measure(process_group: ProcessGroup, task: dict) -> object:
    info = process_group.rank_info
    settings = TrainingConfig(communicator="mpi" if info.by_mpi else "auto", micro_batches=max(2, info.size))
    ranks = process_group.connect(settings)
    tcp = process_group.connect(replace(settings, communicator="tcp")) if ranks.size > 1 else ranks
    if task["what"] == "all-reduce":
        result = all_reduce_times(ranks, tcp, task["lengths"], task["repeats"])
    else:
        result = step_times(ranks, tcp, task["size"], task["quick"], task["rounds"], task["workers"])
    return result if ranks.rank == 0 else None


if __name__ == "__main__":
    keep_freed_memory()
    with init_process_group(lambda message: print_line("scaling", message), explained) as joined:
        measured = measure(joined, json.loads(sys.argv[1]))
        if measured is not None:
            print(json.dumps(measured), flush=True)
