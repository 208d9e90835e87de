"""What bias and ReLU cost on a GPU within the product, by cuBLASLt, and as a pass of their own after it."""

from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np

from benchmarks.common.tables import spread
from benchmarks.common.work import Size
from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device, in_turn, our_update
from minitransformer import kernels
from minitransformer.kernels.cupy import gemm_lt
from minitransformer.kernels.cupy.feed_forward import feed_forward
from minitransformer.kernels.precision import stored_dtype


def epilogues(size: Size, precisions: Sequence[str], device: Device) -> dict:
    """Milliseconds with and without: of whole updates, and of one feed-forward network forward, in turn."""
    if gemm_lt.library() is None:
        return {"left out": "cuBLASLt is not to be found"}

    def measure(precision: str) -> dict:
        _, update = our_update(size, precision, device)
        network = _network(size, precision, device)
        return {
            what: {name: spread(times["device"]) for name, times in in_turn(_both(work), size, device).items()}
            for what, work in (("update ms", update), ("feed_forward, forward, ms", network))
        }

    return one_by_one(precisions, measure, {})


def _both(work: Callable[[], object]) -> dict[str, Callable[[], object]]:
    def without() -> object:
        with patch.object(gemm_lt, "library", lambda: None):
            return work()

    return {"with": work, "without": without}


def _network(size: Size, precision: str, device: Device) -> Callable[[], object]:
    """Of all the rows of a batch."""
    rng, model = np.random.default_rng(0), size.model
    shapes = ((model.d_model, model.d_ff), (model.d_ff,), (model.d_ff, model.d_model), (model.d_model,))
    parameters = [device.xp.asarray(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    with kernels.mode("fast", precision):
        dtype = stored_dtype(np.float32)
    x = rng.standard_normal((size.sentences * size.tokens, model.d_model)).astype(np.float32).astype(dtype)
    x = device.xp.asarray(x)

    def forward() -> object:
        with kernels.mode("fast", precision):
            return feed_forward.forward(x, *parameters)

    return forward
