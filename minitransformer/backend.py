"""The arrays decide which library computes. NumPy users never import CuPy."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from minitransformer import cuda_diagnosis
from minitransformer.errors import BackendError

Array = Any  # numpy.ndarray or cupy.ndarray


def get_array_module(*arrays: Array) -> ModuleType:
    """The library of the given arrays: ``cupy`` if any of them is a CuPy array, else ``numpy``."""
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        for array in arrays:
            if isinstance(array, cupy.ndarray):
                return cupy
    return np


def to_numpy(array: Array) -> np.ndarray:
    """The array as a NumPy array, copied from the device if it is there."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def address(array: Array) -> int:
    """The address of the array's first element in the memory of its device."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def load_array_module(device: str) -> ModuleType:
    """The array library for ``device``: ``cpu`` is NumPy, ``cuda`` is CuPy, ``auto`` is the GPU if one is usable.

    Without a driver ``auto`` does not import CuPy.

    Raises:
        BackendError: ``cuda`` was requested but is not usable; the message says why.
    """
    if device == "cpu":
        return np
    if device not in ("cuda", "auto"):
        raise BackendError(f"device: must be cpu, cuda or auto, got {device!r}")
    if device == "auto" and (cuda_diagnosis.driver_version() == 0 or not cuda_diagnosis.is_installed("cupy")):
        return np
    trouble = cuda_diagnosis.cuda_trouble()
    if trouble is None:
        return sys.modules["cupy"]
    if device == "auto":
        return np
    raise BackendError(f"device cuda: {trouble}; or use --device cpu")


def device_wait(xp: ModuleType) -> Callable[[], None]:
    """A function that waits until the library's device has finished all work; for NumPy it does nothing."""
    return (lambda: None) if xp is np else xp.cuda.runtime.deviceSynchronize
