"""Contestants that take turns, so that other work on the machine affects all of them alike."""

import time
from collections.abc import Callable, Mapping

from tqdm import tqdm

PAUSE = 0.1  # seconds: threads of the one library still spin for a while after its work


def race(
    runners: Mapping[str, Callable[[], object]], rounds: int, warm_up: int, name: str | None = None
) -> dict[str, list[float]]:
    """Seconds of each contestant in each round after the warm-up rounds.   name: of the progress bar (None: no bar)"""
    seconds: dict[str, list[float]] = {runner: [] for runner in runners}
    for number in tqdm(range(warm_up + rounds), desc=name, unit="round", leave=False, disable=name is None):
        for runner, run in runners.items():
            time.sleep(PAUSE)
            began = time.perf_counter()
            run()
            if number >= warm_up:
                seconds[runner].append(time.perf_counter() - began)
    return seconds
