"""What does not fit is refused before a CUDA kernel or cuBLAS, which see only addresses, reads it."""

import numpy as np
import pytest
from cuda_checks import placed

from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy import gemm
from minitransformer.kernels.cupy.gemm import matmul

pytestmark = [pytest.mark.cuda, pytest.mark.any_device]

WRONG = {  # the rule: its inputs' shapes, and which of them is of another shape or dtype
    "linear": (((6, 16), (16, 8), (8,)), {1: "a parameter beside", 2: "linear: bias"}),
    "feed_forward": (((6, 16), (16, 8), (8,), (8, 16), (16,)), {2: "feed_forward: b1", 4: "linear: bias"}),
    "layer_norm": (((6, 16), (16,), (16,)), {1: "layer_norm: gamma and beta", 2: "layer_norm: gamma and beta"}),
    "residual_dropout_norm": (((6, 16), (6, 16), (16,), (16,)), {1: "residual_dropout_norm: sublayer"}),
    "residual_dropout": (((6, 16), (6, 16)), {0: "residual_dropout: x"}),
    "positioned_embedding": (((9, 16), (3, 16)), {1: "positioned_embedding: positions"}),
    "projection_loss": (((3, 16), (9, 16)), {1: "a parameter beside"}),
}


@pytest.mark.parametrize(("name", "wrong"), [(name, i) for name, (_, inputs) in WRONG.items() for i in inputs])
def test_an_input_of_another_shape_or_dtype_is_refused_before_a_kernel_reads_it(name, wrong, device):
    shapes, words = WRONG[name]
    options = {"ids": np.zeros((2, 3), int)} if "embedding" in name else {"targets": np.ones(3, int)}
    options = placed(device, options) if name in ("positioned_embedding", "projection_loss") else {}
    inputs = [np.ones(shape, np.float32) for shape in shapes]
    others = [inputs[wrong].astype(np.float64)]
    others += [inputs[wrong][..., :7], np.ones((*shapes[wrong][:-1], 17), np.float32)] * (inputs[wrong].ndim == 1)
    for other in others:
        given = placed(device, [*inputs[:wrong], other, *inputs[wrong + 1 :]])
        with pytest.raises(ShapeError, match=f"^{words[wrong]}.* must have the shape .*, got "):
            device.kernels[name].forward(*given, **options)


@pytest.mark.parametrize("shapes", [((6, 16), (15, 8)), ((0, 16), (16, 8)), ((6, 16), (16, 0))])
def test_factors_that_do_not_fit_or_are_empty_never_reach_the_library(shapes, device, monkeypatch):
    monkeypatch.setattr(gemm, "cublas", None)
    with pytest.raises(ShapeError, match="^matmul: both factors must fit together and none may be empty"):
        matmul(*(device.put(np.ones(shape, np.float32)) for shape in shapes))
    with pytest.raises(ShapeError, match="both factors must have one type, got float32 and float64"):
        matmul(device.put(np.ones((6, 16), np.float32)), device.put(np.ones((16, 8))))
