"""Reads inputs in a forked process with limits; a process that dies is replaced, and its input reported."""

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
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from random import Random

from minitransformer.cli.common import BAD_INPUT, explained, print_line

from .audit import AuditHook

MAX_LINE = 700
"""Characters of an error message, including the path of the file, at most."""


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
    """The outcome of one input: accepted, refused in one clear line, or a fault with the message of an exception.

    memory: the peak of the process so far, bytes
    """

    index: int
    accepted: bool = False
    fault: str = ""
    message: str = ""
    cpu_seconds: float = 0.0
    memory: int = 0


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
        _limit_memory(limits.memory)
        noticed: list[str] = []
        _notice_warnings(noticed)
        hook = AuditHook(folder)
        sys.addaudithook(hook.take)
        for index in indices:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.chdir(folder)
            reader.write(rng_of(reader.name, seed, index), folder)
            noticed.clear()
            with hook.watching(noticed):
                outcome = _read(reader, folder, index, limits)
            outcome = replace(outcome, fault=outcome.fault or next(iter(noticed), ""))
            os.write(report, json.dumps(asdict(outcome)).encode() + b"\n")
            if outcome.fault:
                break
    except BaseException:
        traceback.print_exc()
        os._exit(3)
    os._exit(0)


def _notice_warnings(noticed: list[str]) -> None:
    """Append the warnings that Python would print to ``noticed``."""
    warnings.simplefilter("always")
    for hidden in (DeprecationWarning, ResourceWarning):  # hidden from users by default
        warnings.simplefilter("ignore", hidden)
    warnings.showwarning = lambda message, category, *_: noticed.append(f"{category.__name__}: {message}")
    sys.unraisablehook = lambda raised: noticed.append(f"ignored {raised.exc_type.__name__}")


def _limit_memory(more: int) -> None:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _read(reader: Reader, folder: Path, index: int, limits: Limits) -> Outcome:
    accepted, fault, message, start = False, "", "", time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)  # the signal ends the process: C code cannot ignore it
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            reader.read(folder)
        accepted = True
    except Exception as error:
        fault, message = fault_of(error), repr(str(error))[:200]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Outcome(index, accepted, fault, message, seconds, peak)


def fault_of(error: BaseException) -> str:
    """Why the user would not get one clear line for this error; empty if they would."""
    message, code = explained(error)
    if code != BAD_INPUT:
        return described(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return f"too much memory, {described(cause)}"
        cause = cause.__cause__ or cause.__context__
    with redirect_stderr(StringIO()) as printed:
        print_line("read", message)
    line = printed.getvalue().removesuffix("\n").encode("utf-8", "backslashreplace").decode()
    if not line.isprintable():
        return f"control characters in the message, {described(error)}"
    return f"a message of more than {MAX_LINE} characters, {described(error)}" if len(line) > MAX_LINE else ""


def described(error: BaseException) -> str:
    """The type of an error and where it was raised, which identify a fault."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "minitransformer/" in frame.filename or "reliability/" in frame.filename]
    last = dict.fromkeys(f"{Path(each.filename).name}:{each.lineno}" for each in [*frames[-1:], *ours[-1:-3:-1]])
    return f"{type(error).__name__} at {' <- '.join(last)}"
