"""Tests on a real GPU: python -m pytest -m gpu. Without a usable GPU they are skipped, with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minitransformer.cuda_diagnosis import cuda_trouble, driver_version

HERE = Path(__file__).parent


class Card:
    """The GPU, as the tests of the kernels want it (see cuda_on_cpu.Device)."""

    def __init__(self, cupy):
        from minitransformer.kernels.cupy import KERNELS

        self.xp, self.kernels = cupy, {kernel.name: kernel for kernel in KERNELS}

    def put(self, array):
        return self.xp.asarray(array)

    def get(self, array) -> np.ndarray:
        return self.xp.asnumpy(array)

    def takes_models(self) -> None:
        """Models of CuPy arrays do so without further ado."""


@pytest.fixture(scope="session")
def card() -> Card:
    trouble = "there is no NVIDIA driver" if driver_version() == 0 else cuda_trouble()
    if trouble:
        pytest.skip(f"no GPU: {trouble}")
    import cupy

    return Card(cupy)


@pytest.fixture
def device(card) -> Card:
    return card


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("gpu")
