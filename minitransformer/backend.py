"""Which array library computes: the arrays decide. NumPy users never import CuPy."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from minitransformer.errors import BackendError, install_hint

Array = Any  # numpy.ndarray or cupy.ndarray
MIB = 1 << 20


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

    Where there is no driver, ``auto`` does not even import CuPy.

    Raises:
        BackendError: ``cuda`` was asked for and is not usable; the message tells the cases apart.
    """
    if device == "cpu":
        return np
    if device not in ("cuda", "auto"):
        raise BackendError(f"device: must be cpu, cuda or auto, got {device!r}")
    if device == "auto" and (driver_version() == 0 or not _is_installed("cupy")):
        return np
    trouble = cuda_trouble()
    if trouble is None:
        return sys.modules["cupy"]
    if device == "auto":
        return np
    raise BackendError(f"device cuda: {trouble}; or use --device cpu")


def driver_version() -> int:
    """The newest CUDA that NVIDIA's driver can run, as 1000 * major + 10 * minor; 0 where there is no driver.

    It is asked by its own library, so that CuPy need not be there.
    """
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value


def cuda_trouble() -> str | None:
    """Why CuPy cannot compute here, with the cure, or ``None`` if it can."""
    if not _is_installed("cupy"):
        return f"CuPy is not installed; {install_hint('cuda13')} (cuda12 for cards before Turing)"
    try:
        import cupy
    except ImportError as error:
        return f"CuPy is installed but cannot be loaded ({_one_line(error)}); {install_hint('cuda13')} anew"
    runtime = cupy.cuda.runtime
    driver, wanted = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        return "CuPy is installed but there is no NVIDIA driver; install the driver of your card"
    if driver // 1000 < wanted // 1000:
        return (
            f"the NVIDIA driver is for CUDA {driver // 1000}, this CuPy for CUDA {wanted // 1000}; install a newer "
            f"driver, or {install_hint('cuda12')}"
        )
    if not cupy.cuda.is_available():
        return "the NVIDIA driver is there but sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    return _card_trouble(cupy, wanted // 1000) or _library_trouble(wanted // 1000) or _first_product_trouble(cupy)


def _card_trouble(cupy: ModuleType, cuda: int) -> str | None:
    """Whether the card is too old for the wheel: those for CUDA 13 begin with Turing."""
    have = int(cupy.cuda.Device().compute_capability)
    need = 75 if cuda >= 13 else 50
    if have >= need:
        return None
    return (
        f"the GPU has compute capability {have / 10}, CuPy for CUDA {cuda} needs {need / 10}; "
        f"pip uninstall cupy-cuda{cuda}x, then {install_hint('cuda12')}"
    )


def _library_trouble(cuda: int) -> str | None:
    """Whether CUDA's libraries, which a driver does not bring, are missing."""
    try:
        from cuda import pathfinder
    except ImportError:  # older CuPy finds them by itself; the first product will tell
        return None
    for library in ("cublas", "nvrtc"):
        try:
            pathfinder.load_nvidia_dynamic_lib(library)
        except (RuntimeError, OSError) as error:
            return (
                f"the driver is there but CUDA's library {library} is not ({_one_line(error)}); "
                f"{install_hint(f'cuda{cuda}')}"
            )
    return None


def _first_product_trouble(cupy: ModuleType) -> str | None:
    """Whether anything else stands in the way, found by computing."""
    try:
        ones = cupy.ones((2, 2), "f")
        cupy.matmul(ones, ones)
        cupy.cuda.runtime.deviceSynchronize()
    except ImportError as error:
        return f"CUDA's libraries cannot be loaded ({_one_line(error)}); {install_hint('cuda13')} (or cuda12)"
    except MemoryError as error:
        return f"the GPU's memory is full ({_one_line(error)}); look at nvidia-smi for who uses it"
    except Exception as error:  # CuPy, cuBLAS, NVRTC and the driver each have exceptions of their own
        return f"the GPU refused a first computation ({type(error).__name__}: {_one_line(error)}); see `doctor`"
    return None


def _is_installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def memory_trouble(error: MemoryError) -> str:
    """What was asked for and, on a GPU, what is free there."""
    asked = getattr(error, "_size", None)  # CuPy's OutOfMemoryError
    if asked is None:
        return str(error) or "no details"
    text = f"{asked / MIB:,.0f} MiB asked for on the GPU"
    try:
        free, total = sys.modules["cupy"].cuda.runtime.memGetInfo()
    except Exception:  # the driver may be beyond answering
        return text
    return f"{text}, {free / MIB:,.0f} of {total / MIB:,.0f} MiB free"


def device_wait(xp: ModuleType) -> Callable[[], None]:
    """A function that waits until the library's device has done all that it was asked for."""
    return (lambda: None) if xp is np else xp.cuda.runtime.deviceSynchronize


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
