"""Trainings of several ranks for tests: what a whole one computes, and how one with a fault must end."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pytest
from rank_jobs import by_mpi, launched, still_running
from tiny_run import final_state

from minitransformer.checkpoints import RunFolder

DEADLINE = 2.5  # seconds, of training.deadline; far above what a busy machine delays a sign of life
AT = 6  # the update before which it happens; checkpoints are written after updates 4, 8, ...
SETTINGS = json.dumps({"updates": 20, "deadline": DEADLINE})
KILLED = r"ended without a word: it was killed"
STOPPED = rf"has been silent for {DEADLINE} s \(training.deadline\): it is stopped"
MESSAGES = {
    "raise": "rank {rank}: ValueError: a fault of the program",
    "memory": r"rank {rank}: not enough memory \(Unable to allocate 9.00 TiB\); take smaller batches",
    "kill": rf"rank {{rank}} \(process \d+ on .*\) {KILLED}",
    "stop": rf"rank {{rank}} \(process \d+ on .*\) {STOPPED}",
    "endless": r"rank {rank} must come to collective \d+ within 2.5 s \(training.deadline\), got only to \d+",
}


def check_end(folder, ended, fault: str, rank: int) -> None:
    words = [line for line in ended.lines if line.startswith("minitransformer")]
    assert len(words) == 1, ended.lines
    assert re.match(f"minitransformer train: {MESSAGES[fault].format(rank=rank)}", words[0]), words[0]
    if fault == "raise":  # a fault of the program shows where it is
        assert "Traceback (most recent call last):" in ended.lines
    else:
        assert ended.lines == words
    assert ended.code == (1 if fault == "raise" else 2)
    check_folder(folder)


def check_folder(folder) -> None:
    assert RunFolder(folder).newest_whole(pytest.fail).update == 4
    check_gone(folder)


def check_gone(folder) -> None:
    """No process of the job is left; mpiexec may end a moment before the last of them."""
    until = time.monotonic() + 5
    while (left := still_running(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def trained(folder, size: int, start: str = "mpirun", **changes) -> np.ndarray:
    """The parameters after 20 updates of four micro-batches, float64, dropout on."""
    words = [folder, json.dumps({"updates": 20} | changes)]
    ended = by_mpi(size, "ranked_run.py", *words) if start == "mpirun" else launched(start, size, *words)
    assert ended.code == 0
    assert [line for line in ended.lines if not line.startswith("train: resumed from")] == []
    return final_state(folder, changes.get("updates", 20))[0]


def wait_for(condition) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)
