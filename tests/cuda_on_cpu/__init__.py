"""The CUDA kernels run on a CPU: compiled by g++, launched on NumPy arrays.

``emulated(monkeypatch)`` puts the emulation in the place of CuPy for one test: then the kernels of kernels/cupy take
NumPy arrays. Everything is the code that runs on a GPU, but for the launch itself and cuBLAS.
"""

import math
import sys

import numpy as np
import pytest

from cuda_on_cpu import kernels, products
from minitransformer.kernels import cupy, selection
from minitransformer.kernels.cupy import KERNELS, gemm, launch


class _Poisoned:
    """NumPy, but new arrays are full of NaN, so that a value that is never written is seen."""

    __name__ = "numpy"

    def __getattr__(self, name: str):
        return getattr(np, name)

    def empty(self, shape, dtype=float):
        """At a multiple of 512 bytes, as CuPy's memory pool gives it."""
        size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
        memory = np.full(size + 512, 255, np.uint8)
        start = -memory.ctypes.data % 512
        return memory[start : start + size].view(dtype).reshape(shape)

    def empty_like(self, array):
        return self.empty(array.shape, array.dtype)


class Device:
    """Where the kernels of kernels/cupy compute: here NumPy's arrays and emulated kernels.

    xp: makes its arrays   put, get: bring NumPy's arrays there and back   kernels: by the names of their rules
    """

    def __init__(self, monkeypatch):
        self.monkeypatch, self.xp = monkeypatch, np
        self.kernels = {kernel.name: kernel for kernel in KERNELS}

    def put(self, array):
        return array

    def get(self, array):
        return np.asarray(array)

    def takes_models(self) -> None:
        """From now on models of NumPy arrays compute by the emulated kernels too."""
        patch = self.monkeypatch
        for name in [name for name, library in selection.KERNELS if library == "numpy"]:
            patch.delitem(selection.KERNELS, (name, "numpy"))
        for name, kernel in self.kernels.items():
            patch.setitem(selection.KERNELS, (name, "numpy"), kernel)
        patch.setitem(selection.LIBRARIES, "numpy", cupy)
        for name, library in list(selection.FUNCTIONS):
            patch.setitem(selection.FUNCTIONS, (name, "numpy"), selection.FUNCTIONS[name, library])


def emulated(monkeypatch) -> Device:
    """For this test NumPy arrays are what CuPy arrays are to the kernels."""
    if kernels.COMPILER is None:
        pytest.skip("g++ is not installed: the kernels cannot be compiled for this machine")
    monkeypatch.setattr(launch, "compile_kernel", kernels.compile_kernel)
    monkeypatch.setattr(gemm, "cublas", lambda: (products.gemmEx, lambda: 0))
    poisoned = _Poisoned()
    for name, module in sys.modules.items():
        if name.startswith("minitransformer.kernels.cupy.") and hasattr(module, "get_array_module"):
            monkeypatch.setattr(module, "get_array_module", lambda *arrays: poisoned)
    return Device(monkeypatch)
