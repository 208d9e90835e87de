"""Updates on arrays without values: their device operations, and the time that the host needs for them."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from unittest.mock import patch

from benchmarks.gpu.meta_arrays import Listener, MetaArray, host_clock, pool
from benchmarks.gpu.meta_device import meta_device
from benchmarks.gpu.recording import Call, Recorder, observed


def recorded(build: Callable[[ModuleType], Callable[[], object]], repeats: int = 10) -> list[Call]:
    """The calls of one update, after a first one that prepares. Their host times sum to that of the fastest of many
    updates that are not watched; each has the share that its shortest time has in those that are.

    build: of the array library, returns a function that makes an update
    """
    recorder = Recorder()
    with meta_device(recorder) as cupy:
        update = build(cupy)
        with observed(recorder):
            update()
            recorder.take()
            rounds = []
            for _ in range(repeats):
                update()
                rounds.append(recorder.take())
        seconds = min(_unwatched_seconds(update) for _ in range(5 * repeats))
    shares = [min(each.host for each in calls) for calls in zip(*rounds, strict=True)]
    factor = seconds / sum(shares)
    return [replace(call, host=factor * share) for call, share in zip(rounds[0], shares, strict=True)]


def replayed(build: Callable[[ModuleType], Callable[[], object]], repeats: int = 10) -> tuple[float, int]:
    """Seconds of Python for an update whose CUDA graphs have been captured, and its operations, each graph one.

    build: as for `recorded`
    """
    recorder = Recorder()
    with meta_device(recorder) as cupy:
        update = build(cupy)
        with observed(recorder):
            for _ in range(3):
                update()
            recorder.take()
            update()
            operations = len(recorder.take())
        return min(_unwatched_seconds(update) for _ in range(5 * repeats)), operations


def _unwatched_seconds(update: Callable[[], object]) -> float:
    """Processor time of an update for which memory is at hand."""
    inert, stopped = patch.object(MetaArray, "listener", Listener()), patch.object(host_clock, "is_running", False)
    with inert, stopped, pool.in_use():
        update()
        began = time.thread_time()
        update()
        return time.thread_time() - began
