"""What some tests need of the operating system: ``@needs("fork")`` skips a test where there is none."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

FEATURES = {
    "fork": hasattr(os, "fork"),
    "POSIX": os.name == "posix",  # its shell and programs, the permissions and links of its files
    "named pipes": hasattr(os, "mkfifo"),
    "signals between processes": hasattr(signal, "SIGKILL"),
    "file locks": importlib.util.find_spec("fcntl") is not None,  # and folders that may be deleted while in use
    "limits of a process": importlib.util.find_spec("resource") is not None,
    "/dev/zero": Path("/dev/zero").exists(),
    "/proc": sys.platform == "linux",
}
"""Whether this system has it."""


def needs(feature: str) -> pytest.MarkDecorator:
    """Skip the test on systems without this feature."""
    return pytest.mark.skipif(not FEATURES[feature], reason=f"this system does not have {feature}")


def find_mpiexec() -> str:
    """The command that starts ranks of MPI, or "" where it or mpi4py is missing."""
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    return (beside or shutil.which("mpiexec") or "") if importlib.util.find_spec("mpi4py") else ""


def processes_with(variable: str) -> list[Path]:
    """The folders in /proc of the processes that were started with this environment variable, NAME=VALUE."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has just ended, or is another user's
            if variable.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent)
    return found


def python(*words: str, cwd: Path | None = None, sent: str = "") -> subprocess.CompletedProcess:
    """``python WORDS`` where nothing has been imported and no GPU is seen, with this standard input."""
    tests = Path(__file__).parent
    path = os.pathsep.join(map(str, (tests.parent, tests, tests / "kernels")))
    options = {"env": os.environ | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}, "cwd": cwd, "input": sent}
    return subprocess.run([sys.executable, *words], **options, capture_output=True, text=True, timeout=300, check=False)


def in_new_process(program: str) -> str:
    """What this program prints."""
    done = python("-W", "ignore", "-c", program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def chromium(profile: Path, *options: object) -> list[str]:
    """The command of a browser without a window; the test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    headless = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run".split()
    return [program, *headless, f"--user-data-dir={profile}", *map(str, options)]
