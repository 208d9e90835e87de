"""The CUDA kernels run on a CPU: compiled by g++, launched on NumPy arrays.

``emulated(monkeypatch)`` puts the emulation in the place of CuPy for one test: then the twins of kernels/cupy take
NumPy arrays. Everything is the code that runs on a GPU, but for the launch itself and cuBLAS.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cuda_on_cpu import kernels, products
from minitransformer.kernels.cupy import TWINS, gemm, launch


class _Poisoned:
    """NumPy, but new arrays are full of what is no number, so that a value nobody writes is seen."""

    __name__ = "numpy"

    def __getattr__(self, name: str):
        return getattr(np, name)

    def empty(self, shape, dtype=float):
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = 255
        return array

    def empty_like(self, array):
        return self.empty(array.shape, array.dtype)


def emulated(monkeypatch) -> dict:
    """For this test NumPy arrays are what CuPy arrays are to the twins; returns the twins by name."""
    if kernels.COMPILER is None:
        pytest.skip("g++ is not installed: the kernels cannot be compiled for this machine")
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: NumPy has no bfloat16")
    monkeypatch.setattr(launch, "compiled", kernels.compiled)
    monkeypatch.setattr(gemm, "_cublas", lambda: SimpleNamespace(**vars(products)))
    monkeypatch.setattr(gemm, "_handle", lambda: 0)
    poisoned = _Poisoned()
    for name, module in sys.modules.items():
        if name.startswith("minitransformer.kernels.cupy.") and hasattr(module, "get_array_module"):
            monkeypatch.setattr(module, "get_array_module", lambda *arrays: poisoned)
    return {twin.name: twin for twin in TWINS}
