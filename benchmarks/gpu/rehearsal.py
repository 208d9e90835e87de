"""Stages without a GPU: kernels emulated on the CPU, as the tests emulate them, so that a stage's own faults are found
before the first minute on a card."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.gpu import nccl
from benchmarks.gpu.steps import Device
from minitransformer.distributed.communicator import SingleProcess
from minitransformer.models import base

TESTS = Path(__file__).parents[2] / "tests"


class OneRank(SingleProcess):
    """A rank that needs no id, in place of NCCL's."""

    def make_id(self) -> str:
        return ""

    def join(self, unique_id: str) -> None:
        pass


def emulated_device(kept: Path) -> Device:
    """NumPy as the device; from now on the kernels of kernels/cupy accept its arrays.

    kept: a folder for compiled kernels, so that each is compiled once for all stages
    """
    sys.path.append(str(TESTS))
    import pytest
    from cuda_on_cpu import emulated, kernels

    kernels.subprocess = SimpleNamespace(run=compile_once(kept))
    nccl.NcclCommunicator = OneRank
    base.check_precision = lambda *arguments: None  # which refuses half precision on NumPy's arrays
    emulated(pytest.MonkeyPatch()).takes_models()
    return Device(np, "cpu")


def compile_once(kept: Path) -> Callable[..., subprocess.CompletedProcess]:
    """``subprocess.run`` of a compiler with ``-o FILE`` at the end, called only once for the same source and options.

    The source is a file of the command, or its input. A command that only links has none, and is always run.
    """
    kept.mkdir(parents=True, exist_ok=True)
    emulation = [path.read_text(encoding="utf-8") for path in sorted((TESTS / "cuda_on_cpu").glob("*.*"))]

    def run(command: list[str], **options) -> subprocess.CompletedProcess:
        files = [Path(each).read_text(encoding="utf-8") for each in command if each.endswith(".cpp")]
        source = options.get("input") or "".join(files)
        flags = [each for each in command if not each.startswith(tempfile.gettempdir())]
        known = kept / hashlib.sha256("\n".join([*emulation, *flags, source]).encode()).hexdigest()
        if source and known.exists():
            shutil.copy(known, command[-1])
            return subprocess.CompletedProcess(command, 0, "", "")
        done = subprocess.run(command, **options)
        if source and done.returncode == 0:
            shutil.copy(command[-1], known)
        return done

    return run
