"""The threads of NumPy's BLAS: how many take part in one matrix product, and how to limit that for a while."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

# The names under which NumPy's wheels and the usual systems export OpenBLAS's switch.
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blas_threads() -> int | None:
    """Threads that take part in one large product now; ``None`` if NumPy's BLAS is not OpenBLAS and does not tell."""
    get = _function("get")
    return None if get is None else get()


@contextmanager
def limited_blas_threads(number: int) -> Iterator[None]:
    """Within the block products run on ``number`` threads, in the whole process. A BLAS without a switch goes on as
    it was."""
    before, set_threads = blas_threads(), _function("set")
    if before is None or set_threads is None:
        yield
        return
    set_threads(number)
    try:
        yield
    finally:
        set_threads(before)


@cache
def _function(verb: str) -> Callable | None:
    """OpenBLAS's ``get`` or ``set`` function, found among the libraries that NumPy itself has loaded."""
    try:
        from numpy._core import _multiarray_umath  # here: `minitransformer --version` need not wait for NumPy

        library = ctypes.CDLL(_multiarray_umath.__file__)
    except (ImportError, OSError):
        return None
    names = (name.format(verb) for name in _NAMES)
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)
