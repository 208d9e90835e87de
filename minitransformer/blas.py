"""The processor, and the threads of NumPy's BLAS: how many work on one product, and how to limit them for a while."""

import ctypes
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

# The names under which NumPy's wheels and common systems export OpenBLAS's functions.
_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")

_LOCK = Lock()
# The number of threads before the first limit, then each limit in force: blocks of several threads may overlap, and the
# last to end must restore what was before the first.
_LIMITS: list[list[int]] = []
_LENT: list[int] = []
"""The threads of another library that multiplies in this process, if there is one; NumPy's BLAS then has one."""


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def processor_name() -> str:
    """Such as ``AMD EPYC``; "unknown" if the system does not tell."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def blas_threads() -> int | None:
    """Threads that work on one large product now; ``None`` if NumPy's BLAS is not OpenBLAS."""
    get = _function("get_num_threads")
    return None if get is None else _LENT[0] if _LENT else get()


@cache
def blas_kernels() -> str:
    """OpenBLAS's name of the processor whose kernels it uses, such as ``SkylakeX``; empty for another BLAS."""
    name_of = _function("get_corename")
    if name_of is None:
        return ""
    name_of.restype = ctypes.c_char_p
    return name_of().decode("ascii", "replace")


def lend_blas_threads(lend: bool) -> None:
    """Let another library multiply with all threads but one of NumPy's BLAS, or take them back. Threads spin for a
    while after a product: two pools of them would keep each other from working."""
    set_threads = _function("set_num_threads")
    with _LOCK:
        if set_threads is not None and lend != bool(_LENT):
            number = blas_threads()
            _LENT[:] = [number] if lend else []
            set_threads(1 if lend else number)


@contextmanager
def limited_blas_threads(number: int) -> Iterator[None]:
    """Within the block products run on ``number`` threads, in the whole process. A BLAS that is not OpenBLAS is left
    as it is."""
    if blas_threads() is None or _function("set_num_threads") is None:
        yield
        return
    limit = [number]
    with _LOCK:
        if not _LIMITS:
            _LIMITS.append([blas_threads()])
        _LIMITS.append(limit)
        _set(number)
    try:
        yield
    finally:
        with _LOCK:
            _LIMITS[:] = [each for each in _LIMITS if each is not limit]
            _set(_LIMITS[-1][0])
            if len(_LIMITS) == 1:
                _LIMITS.clear()


def _set(number: int) -> None:
    """As many threads of the library that multiplies."""
    if _LENT:
        _LENT[0] = number
    else:
        _function("set_num_threads")(number)


@cache
def _function(name: str) -> Callable | None:
    """OpenBLAS's function, such as ``get_num_threads``, found among the libraries that NumPy itself has loaded."""
    try:
        from numpy._core import _multiarray_umath  # here, so that `minitransformer --version` does not import NumPy

        library = ctypes.CDLL(_multiarray_umath.__file__)
    except (ImportError, OSError):
        return None
    names = (each.format(name) for each in _NAMES)
    return next((getattr(library, each) for each in names if hasattr(library, each)), None)
