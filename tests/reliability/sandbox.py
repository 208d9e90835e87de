"""Reads inputs in a forked process with limits, and watches it: a process that dies is replaced, its input reported."""

import gc
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from random import Random

import minitransformer
from minitransformer.cli.common import BAD_INPUT, explain, print_line

MAX_LINE = 700
"""Characters of an error message, including the path of the file, at most."""
FORBIDDEN = set("pickle.find_class subprocess.Popen os.system os.exec os.posix_spawn os.fork ctypes.dlopen".split())
FORBIDDEN |= set("socket.connect socket.bind socket.getaddrinfo os.symlink os.link os.chown".split())
"""Audit events that no reader may cause."""
PATHS = dict.fromkeys("open os.mkdir os.remove os.rmdir os.truncate os.chmod os.listdir os.scandir".split(), 1)
PATHS["os.rename"] = 2
"""Audit events, and how many of their first arguments are paths."""
LIBRARIES = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), str(Path(minitransformer.__file__).parents[1]))
ELSEWHERE = (*LIBRARIES, "/dev/null", "/proc/", "/sys/")
"""Locations of modules, which may be imported late, and of what is not on a disk."""


@dataclass(frozen=True)
class Limits:
    """Limits of one input: CPU seconds, wall-clock seconds, and bytes of memory in addition to the process's own."""

    cpu_seconds: float = 5.0
    seconds: float = 60.0
    memory: int = 256 << 20


class Reader(ABC):
    """A reader of the package and its inputs. ``Reader(folder)`` makes valid files in ``folder``."""

    name: str

    def __init__(self, folder: Path):
        self.folder = folder

    @abstractmethod
    def write(self, rng: Random, folder: Path) -> None:
        """Write a damaged input to the empty ``folder``."""

    @abstractmethod
    def read(self, folder: Path) -> None:
        """Read the input as the package does; assert what must hold if it is accepted."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one input: accepted, refused in one clear line (``fault`` is empty), or a fault."""

    index: int
    accepted: bool = False
    fault: str = ""
    cpu_seconds: float = 0.0


def rng_of(reader: str, seed: int, index: int) -> Random:
    """The random numbers of an input, which depend on these three values alone."""
    return Random(f"{reader} {seed} {index}")


def outcomes(
    reader: Reader, seed: int, indices: range, folder: Path, limits: Limits | None = None
) -> Iterator[Outcome]:
    """The outcome of each input, in order. After a fault the input stays in ``folder`` until the next is requested."""
    limits = limits or Limits()
    while indices:
        results, report = os.pipe()
        with warnings.catch_warnings(action="ignore"):  # the threads of BLAS, which the child does not use, are idle
            process = os.fork()
        if process == 0:
            os.close(results)
            _work(reader, seed, indices, folder, report, limits)
        os.close(report)
        with os.fdopen(results) as lines:
            for line in lines:
                indices = indices[1:]
                yield Outcome(**json.loads(line))
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            index, indices = indices[0], indices[1:]
            yield Outcome(index, fault=_cause_of(os.WTERMSIG(status), limits))
        elif status:
            raise RuntimeError(f"fuzz: {reader.name} input {indices[0]} could not be written; see the traceback above")


def _cause_of(number: int, limits: Limits) -> str:
    causes = {
        signal.SIGPROF: f"more than {limits.cpu_seconds:g} s of CPU",
        signal.SIGALRM: f"more than {limits.seconds:g} s",
    }
    return causes.get(number, f"the process died of {signal.Signals(number).name}")


def _work(reader: Reader, seed: int, indices: range, folder: Path, report: int, limits: Limits) -> None:
    """The forked process, which ends after the last input or the first fault."""
    try:
        gc.freeze()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + limits.memory,) * 2)
        observer = Observer(folder)
        for index in indices:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.chdir(folder)
            reader.write(rng_of(reader.name, seed, index), folder)
            outcome = _read(reader, folder, index, limits, observer)
            os.write(report, json.dumps(asdict(outcome)).encode() + b"\n")
            if outcome.fault:
                break
    except BaseException:
        traceback.print_exc()
        os._exit(3)
    os._exit(0)


def _read(reader: Reader, folder: Path, index: int, limits: Limits, observer: "Observer") -> Outcome:
    accepted, fault, start = False, "", time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)  # the signal ends the process: C code cannot ignore it
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    observer.noticed, observer.is_on = [], True
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            reader.read(folder)
        accepted = True
    except Exception as error:
        fault = fault_of(error)
    finally:
        observer.is_on = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    fault = fault or next(iter(observer.noticed), "")
    return Outcome(index, accepted and not fault, fault, time.process_time() - start)


def fault_of(error: BaseException) -> str:
    """Why the user would not get one clear line for this error; empty if they would."""
    message, code = explain(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or code != BAD_INPUT:
            where = traceback.extract_tb(cause.__traceback__)[-1]
            return f"{type(cause).__name__} at {Path(where.filename).name}:{where.lineno}, {str(cause)[:200]!r}"
        cause = cause.__cause__ or cause.__context__
    with redirect_stderr(StringIO()) as printed:
        print_line("read", message)
    line = printed.getvalue().removesuffix("\n").encode("utf-8", "backslashreplace").decode()
    return "" if line.isprintable() and len(line) <= MAX_LINE else f"not one clear line: {line[:200]!r}"


class Observer:
    """Notices what a reader must not do (Python's audit events) and the warnings that a user would see."""

    def __init__(self, folder: Path):
        self.folder, self.is_on, self.noticed = str(folder.resolve()), False, []
        sys.addaudithook(self.take)
        warnings.simplefilter("always")
        for hidden in (DeprecationWarning, ResourceWarning):  # hidden from users by default
            warnings.simplefilter("ignore", hidden)
        warnings.showwarning = lambda message, category, *_: self.noticed.append(f"{category.__name__}: {message}")
        sys.unraisablehook = lambda raised: self.noticed.append(f"ignored {raised.exc_type.__name__}")

    def take(self, event: str, arguments: tuple) -> None:
        """Called by Python for every event of this process."""
        if not self.is_on or (event == "ctypes.dlopen" and arguments[0] is None):  # the process itself, for mallopt
            return
        if event in FORBIDDEN or (event == "exec" and is_text(arguments[0])):
            self.noticed.append(f"{event} by a reader, {str(arguments)[:100]}")
        for path in arguments[: PATHS.get(event, 0)]:
            if isinstance(path, str | bytes | os.PathLike):
                full = os.path.normpath(os.path.join(self.folder, os.fsdecode(path)))
                if not f"{full}/".startswith((f"{self.folder}/", *ELSEWHERE)):
                    self.noticed.append(f"{event} outside of the folder, {full[:100]!r}")


def is_text(code: object) -> bool:
    """Whether this code was compiled from a string; not while a module is imported, which may define a dataclass."""
    frame = sys._getframe()
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return getattr(code, "co_filename", "<string>").startswith("<")
