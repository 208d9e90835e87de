"""Which array library computes: the arrays decide. NumPy users never import CuPy."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

import numpy as np

from minitransformer.errors import BackendError, install_hint

Array = Any  # numpy.ndarray or cupy.ndarray


def get_array_module(*arrays: Array) -> ModuleType:
    """The library of the given arrays: ``cupy`` if any of them is a CuPy array, else ``numpy``."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and any(isinstance(array, cupy.ndarray) for array in arrays):
        return cupy
    return np


def library_name(xp: ModuleType) -> str:
    return xp.__name__


def to_numpy(array: Array) -> np.ndarray:
    """The same values as a NumPy array (copied from the device if need be)."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def load_array_module(device: str) -> ModuleType:
    """The array library for ``device``: ``cpu`` is NumPy, ``cuda`` is CuPy, ``auto`` is the GPU if one is usable.

    Raises:
        BackendError: ``cuda`` was asked for and is not usable; the message tells the cases apart.
    """
    if device == "cpu":
        return np
    if device not in ("cuda", "auto"):
        raise BackendError(f"device: must be cpu, cuda or auto, got {device!r}")
    if device == "auto" and "cupy" not in sys.modules:
        import importlib.util

        if importlib.util.find_spec("cupy") is None:
            return np
    trouble = cuda_trouble()
    if trouble is None:
        return sys.modules["cupy"]
    if device == "auto":
        return np
    raise BackendError(f"device cuda: {trouble}; or use --device cpu")


def cuda_trouble() -> str | None:
    """Why CuPy cannot compute here, with the cure, or ``None`` if it can."""
    try:
        import cupy
    except ImportError:
        return f"CuPy is not installed; {install_hint('cuda13')} (cuda12 for cards before Turing)"
    if cupy.cuda.runtime.driverGetVersion() == 0:
        return "CuPy is installed but there is no NVIDIA driver; install the driver of your card"
    if not cupy.cuda.is_available():
        return "the NVIDIA driver is there but sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    try:
        cupy.matmul(cupy.ones((2, 2), "f"), cupy.ones((2, 2), "f"))
    except ImportError as error:
        return f"the driver is there but CUDA's libraries are not ({error}); {install_hint('cuda13')}"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"the GPU refused a first computation ({error}); for an older card {install_hint('cuda12')}"
    return None


def keep_freed_memory() -> None:
    """Ask the C library to reuse the memory of freed arrays instead of giving it back to the system.

    A step makes and frees hundreds of arrays of some megabytes. glibc fetches each from the system anew, which then
    fills it with zeros, page by page: a tenth of a training step (benchmarks/notes.md). Elsewhere nothing happens.
    """
    m_trim_threshold, m_mmap_threshold, m_arena_max = -1, -3, -8  # from malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    mallopt(m_mmap_threshold, 1 << 30) or mallopt(m_mmap_threshold, 1 << 25)  # older versions allow 32 MB at most
    mallopt(m_trim_threshold, (1 << 31) - 1)
    mallopt(m_arena_max, 1)  # a second thread's own arena would give large arrays back all the same
