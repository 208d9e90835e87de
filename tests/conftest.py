"""What all tests share: a seeded generator, the folder of real data, PyTorch as an outside oracle."""

import io
import os
import re
import signal
import sys
import tracemalloc
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # processes that share the cores multiply on one thread each
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from extras import need, summary  # noqa: E402

pytest.register_assert_rewrite("cuda_checks", "rank_jobs", "small_models")


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Random numbers that are the test's own (seeded with its name), the same in every run and on every device."""
    name = re.sub(r"\[(emulated|gpu)\]$|(?<=\[)(emulated|gpu)-", "", request.node.name)
    return np.random.default_rng(zlib.crc32(name.encode()))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real corpora that MINITRANSFORMER_DATA names."""
    named = os.environ.get("MINITRANSFORMER_DATA")
    if not named:
        pytest.skip("set MINITRANSFORMER_DATA to a folder with multi30k/, bpe_reference/ ... to run this test")
    folder = Path(named)
    if not folder.is_dir():
        pytest.skip(f"MINITRANSFORMER_DATA must name a folder, got {named}")
    return folder


@pytest.fixture(scope="session")
def torch():
    """PyTorch on one thread; the test is skipped where it is not installed."""
    module = need("torch")
    module.set_num_threads(1)
    return module


@pytest.fixture
def moses():
    """sacremoses; the test is skipped where it is not installed."""
    need("sacremoses")


def pytest_configure():
    """Let child processes heed interrupts and hang-ups even under nohup, or in the background of a script.

    They inherit it when a signal is ignored, but not a handler that does nothing.
    """
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None)


def pytest_collection_modifyitems(items):
    """Tests that read real corpora are marked, so that they can be run by themselves: pytest -m data."""
    for item in items:
        if "data_folder" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With MINITRANSFORMER_REQUIRE_PARITY=1 a test that is skipped because PyTorch, MPI or CUDA's compiler is
    missing, which the extra dev installs, has failed: CI must not pass by skipping. (A machine without g++ may skip
    what needs it.)"""
    report = yield
    if os.environ.get("MINITRANSFORMER_REQUIRE_PARITY") == "1" and report.skipped:
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        lacks_package = any(word in reason for word in ("pip install", "mpi4py", "mpiexec"))
        if item.get_closest_marker("parity") or (lacks_package and any(map(item.get_closest_marker, ("mpi", "cuda")))):
            report.outcome = "failed"
            report.longrepr = f"MINITRANSFORMER_REQUIRE_PARITY=1, but this test was skipped: {reason}"
    return report


def pytest_terminal_summary(terminalreporter):
    """One line at the end: how many tests were skipped, and what it takes to run them."""
    if reasons := [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]:
        terminalreporter.write_line(summary(reasons))


@pytest.fixture
def refused(capsys):
    """A function: the exit code is 2 and one line of error, with these words, was printed. Returns the other output."""

    def check(code: int, *words: str) -> str:
        output, error = capsys.readouterr()
        assert code == 2 and error.count("\n") == 1 and all(each in error for each in words), error
        return output

    return check


@pytest.fixture
def type_in(monkeypatch):
    """Make ``data`` the standard input, from a file or as if typed at a terminal."""

    def set_stdin(data: bytes, terminal: bool = False) -> None:
        stream = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        stream.isatty = lambda: terminal
        monkeypatch.setattr(sys, "stdin", stream)

    return set_stdin


@pytest.fixture
def relative_error():
    """||a - b|| / ||b|| over the whole vector; zero in truth must be zero."""

    def error(a, b) -> float:
        a, b = (np.asarray(x, dtype=np.float64) for x in (a, b))
        assert a.shape == b.shape, f"shapes differ: {a.shape} and {b.shape}"
        distance, size = np.linalg.norm(a - b), np.linalg.norm(b)
        return float(distance / size) if size else float(distance)

    return error


def pytest_generate_tests(metafunc):
    """A test with the mark any_device runs on the emulated kernels, and once more on the GPU (pytest -m gpu)."""
    if "device" in metafunc.fixturenames and metafunc.definition.get_closest_marker("any_device"):
        metafunc.parametrize("device", ["emulated", pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)


@pytest.fixture
def device(request, monkeypatch):
    """Where the kernels for CuPy compute: on this CPU, emulated, or on a GPU."""
    need("ml_dtypes")
    if getattr(request, "param", "emulated") == "gpu":
        return request.getfixturevalue("card")
    from cuda_on_cpu import emulated

    return emulated(monkeypatch)


@pytest.fixture(scope="session")
def card():
    """The GPU of this machine, with what cuda_on_cpu.Device has; the test is skipped where there is none."""
    from minitransformer.cuda_diagnosis import cuda_trouble, driver_version

    trouble = "there is no NVIDIA driver" if driver_version() == 0 else cuda_trouble()
    if trouble:
        pytest.skip(f"no GPU: {trouble}")
    import cupy

    from minitransformer.kernels.cupy import KERNELS

    kernels = {kernel.name: kernel for kernel in KERNELS}
    return SimpleNamespace(  # models of CuPy arrays use the kernels by default
        xp=cupy, put=cupy.asarray, get=cupy.asnumpy, kernels=kernels, takes_models=lambda: None
    )


@pytest.fixture
def peak_memory():
    """A function: the bytes of Python that were allocated at once since it was called last, or the test began."""

    def peak() -> int:
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        return found

    tracemalloc.start()
    yield peak
    tracemalloc.stop()
