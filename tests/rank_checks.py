"""Trainings of several ranks for tests: what a whole one computes, and how one with a fault must end."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from rank_jobs import Ended, by_mpi, launched, still_running
from tiny_run import final_state

from minitransformer.checkpoints import RunFolder
from minitransformer.training import read_metrics


def check_end(folder: Path, ended: Ended, message: str, code: int = 2, update: int = 4) -> None:
    """One line tells of the end, the checkpoint of ``update`` is whole, and no process is left."""
    lines = [line for line in ended.lines if line.startswith("minitransformer")]
    assert len(lines) == 1, ended.lines
    assert re.match(f"minitransformer train: {message}", lines[0]), lines[0]
    if code == 1:  # a fault of the program shows where it is
        assert "Traceback (most recent call last):" in ended.lines
    else:
        assert ended.lines == lines
    assert ended.code == code
    check_folder(folder, update)


def check_folder(folder: Path, update: int = 4) -> None:
    assert RunFolder(folder).newest_whole(pytest.fail).update == update
    check_gone(folder)


def check_gone(folder: Path) -> None:
    """No process of the job is left; mpiexec may end a moment before the last of them."""
    until = time.monotonic() + 5
    while (left := still_running(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


CLOCK = {"seconds", "tokens_per_second"}


def metrics_of(folder: Path) -> list[dict]:
    """The lines of metrics, without what depends on the clock."""
    lines = read_metrics(folder / "metrics.jsonl")
    return [{key: value for key, value in line.items() if key not in CLOCK} for line in lines]


def trained(folder: Path, size: int, start: str = "mpirun", **changes) -> np.ndarray:
    """The parameters after 20 updates of four micro-batches, float64, dropout on."""
    words = [folder, json.dumps({"updates": 20} | changes)]
    ended = by_mpi(size, "ranked_run.py", *words) if start == "mpirun" else launched(size, *words)
    assert ended.code == 0, ended.lines
    assert [line for line in ended.lines if not line.startswith("train: resumed from")] == []
    return final_state(folder, changes.get("updates", 20))[0]
