"""The threads of NumPy's BLAS: how many work on one matrix product, and how to limit them for a while."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

# The names under which NumPy's wheels and common systems export OpenBLAS's functions.
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)

_LOCK = Lock()
# The number of threads before the first limit, then each limit in force: blocks of several threads may overlap, and the
# last to end must restore what was before the first.
_LIMITS: list[list[int]] = []


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blas_threads() -> int | None:
    """Threads that work on one large product now; ``None`` if NumPy's BLAS is not OpenBLAS."""
    get = _function("get")
    return None if get is None else get()


@contextmanager
def limited_blas_threads(number: int) -> Iterator[None]:
    """Within the block products run on ``number`` threads, in the whole process. A BLAS that is not OpenBLAS is left
    as it is."""
    set_threads = _function("set")
    if blas_threads() is None or set_threads is None:
        yield
        return
    limit = [number]
    with _LOCK:
        if not _LIMITS:
            _LIMITS.append([blas_threads()])
        _LIMITS.append(limit)
        set_threads(number)
    try:
        yield
    finally:
        with _LOCK:
            _LIMITS[:] = [each for each in _LIMITS if each is not limit]
            set_threads(_LIMITS[-1][0])
            if len(_LIMITS) == 1:
                _LIMITS.clear()


@cache
def _function(verb: str) -> Callable | None:
    """OpenBLAS's ``get`` or ``set`` function, found among the libraries that NumPy itself has loaded."""
    try:
        from numpy._core import _multiarray_umath  # here, so that `minitransformer --version` does not import NumPy

        library = ctypes.CDLL(_multiarray_umath.__file__)
    except (ImportError, OSError):
        return None
    names = (name.format(verb) for name in _NAMES)
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)
