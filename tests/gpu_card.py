"""A GPU, as the tests of the CUDA kernels want it (see cuda_on_cpu.Device)."""

import numpy as np


class Card:
    """xp: makes its arrays   put, get: bring NumPy's arrays there and back   kernels: by the names of their rules"""

    def __init__(self, cupy):
        from minitransformer.kernels.cupy import KERNELS

        self.xp, self.kernels = cupy, {kernel.name: kernel for kernel in KERNELS}

    def put(self, array):
        return self.xp.asarray(array)

    def get(self, array) -> np.ndarray:
        return self.xp.asnumpy(array)

    def takes_models(self) -> None:
        """Models of CuPy arrays do so without further ado."""
