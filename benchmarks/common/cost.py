"""What a piece of work costs in time and memory."""

import time
import tracemalloc
from collections.abc import Callable


def time_and_memory(work: Callable[[], object], rounds: int) -> dict[str, float]:
    """Seconds (the lowest of ``rounds``, after one that is not counted) and peak bytes of arrays and objects."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"seconds": min(seconds[1:]), "bytes": peak}
