"""Cases for the CUDA kernels beyond those of every rule, and the comparison of a kernel with its rule."""

import numpy as np
from cases import CASES, as_tuple, booleans, case, causal, cotangents, ids, mask
from slow_philox import slow_mask

from minitransformer.kernels import CountedMask, mode
from minitransformer.kernels.cupy import KERNELS


def zipf(size: int, shape: tuple[int, ...]):
    """Ids as frequent as the words of a text: id i about 1 / (i + 1) times as often as the first."""
    return lambda rng: np.minimum(rng.zipf(1.3, shape) - 1, size - 1)


NAMES = [kernel.name for kernel in KERNELS]
WIDE, MANY = (3, 11, 776), (70, 9, 520)
ZIPF = zipf(40, MANY[:2])
OTHER_SIZES = [
    case("residual_dropout_norm", "a row of 776", WIDE, WIDE, (776,), (776,), keep=booleans(WIDE), p_drop=0.4),
    case("residual_dropout_norm", "a row of 4,104", (2, 4104), (2, 4104), (4104,), (4104,)),
    case("residual_dropout_norm", "many rows", (50, 9), (50, 9), (9,), (9,), eps=1e-3),
    case("layer_norm", "a row of 257", (5, 257), (257,), (257,)),
    case("residual_dropout", "a row of 40", (5, 40), (5, 40), keep=booleans((5, 40)), p_drop=0.9),
    case("attention", "70 keys", (2, 3, 5, 8), (2, 3, 70, 8), (2, 3, 70, 16), mask=mask((2, 1, 1, 70))),
    case("attention", "70 queries", (1, 2, 70, 8), (1, 2, 70, 8), (1, 2, 70, 8), mask=causal(70)),
    case("attention", "five axes", (2, 2, 3, 5, 4), (2, 2, 3, 6, 4), (2, 2, 3, 6, 4), mask=mask((2, 1, 3, 5, 6))),
    case("attention", "one query", (3, 2, 1, 8), (3, 2, 33, 8), (3, 2, 33, 8)),
    case("feed_forward", "40", (7, 16), (16, 40), (40,), (40, 16), (16,), keep=booleans((7, 40)), p_drop=0.3),
    case("linear", "many rows", (1100, 3), (3, 33), (33,)),
    case("positioned_embedding", "long", (40, 48), (30, 48), ids=ids(5, (70, 30)), scale=3.0),
    case("positioned_embedding", "every frequency", (40, 520), (9, 520), ids=ZIPF, keep=booleans(MANY), p_drop=0.2),
    case("positioned_embedding", "one token", (3, 8), (33, 8), ids=ids(1, (4, 33))),
    case("embedding", "every frequency", (40, 520), ids=ZIPF, scale=3.0),
    case("projection_loss", "4,203 subwords", (3, 8), (4203, 8), targets=ids(4203, (3,)), label_smoothing=0.1),
    case("projection_loss", "1,100 tokens", (5, 16), (1100, 16), targets=ids(1100, (5,)), label_smoothing=0.1),
]
KERNEL_CASES = [each for each in [*CASES, *OTHER_SIZES] if each.rule.name in NAMES]
N, V = 4000, 37_000


def for_logits(rng, shape):
    """Rows and a table whose products, the logits, have deviation 1, as in training. From factors of deviation 1 they
    have 23, and what bfloat16 rounds off those is three hundredths of the gradient."""
    return rng.standard_normal(shape) * shape[-1] ** -0.25


def for_relu(rng, shape):
    """-1, 0 and 1, and biases half a unit off: every order of sums gives the same hidden values, and none is so near
    ReLU's zero that rounding would decide about it. Of 8 million normal ones some are."""
    return rng.integers(-1, 2, shape) + (0.5 if len(shape) == 1 else 0.0)


REAL_SIZES = [
    case("residual_dropout_norm", "base", (N, 512), (N, 512), (512,), (512,), keep=booleans((N, 512)), p_drop=0.1),
    case("residual_dropout_norm", "big", (N, 1024), (N, 1024), (1024,), (1024,)),
    case("layer_norm", "base", (N, 512), (512,), (512,)),
    case("residual_dropout", "base", (N, 512), (N, 512), keep=booleans((N, 512)), p_drop=0.1),
    case("attention", "base", (160, 8, 25, 64), (160, 8, 25, 64), (160, 8, 25, 64), mask=np.tri(25, dtype=bool)),
    case("attention", "long", (2, 8, 600, 64), (2, 8, 700, 64), (2, 8, 700, 64)),
    case("linear", "base", (N, 512), (512, 2048), (2048,)),
    case("feed_forward", "base", (N, 512), (512, 2048), (2048,), (2048, 512), (512,), draw=for_relu),
    case("embedding", "base", (V, 512), ids=ids(900, (160, 25)), scale=22.6),
    case("positioned_embedding", "base", (V, 512), (25, 512), ids=ids(900, (160, 25)), scale=22.6),
    case("projection_loss", "base", (N, 512), (V, 512), draw=for_logits, targets=ids(V, (N,)), label_smoothing=0.1),
]
"""Those of real training, for a GPU."""
CLOSE = {"float32": 3e-6, "float64": 1e-12, "bfloat16": 2e-2, "float16": 3e-3}
PARAMETERS = dict(embedding=0, positioned_embedding=0, linear=1, feed_forward=1, layer_norm=1, projection_loss=1)
PARAMETERS["residual_dropout_norm"] = 2
"""From which input on the inputs of a rule are parameters, which are never stored in half precision."""


def placed(device, value):
    """An array, or all arrays of a list, a tuple or a dict, on the device; everything else as it is."""
    if isinstance(value, np.ndarray):
        return device.put(value)
    if isinstance(value, dict):
        return {name: placed(device, each) for name, each in value.items()}
    return type(value)(placed(device, each) for each in value) if isinstance(value, list | tuple) else value


def with_counted_mask(options: dict, device) -> tuple[dict, dict]:
    """Options for the plain rule, with the mask as an array, and for the kernel, with the same mask to be counted."""
    there = placed(device, options)
    if options.get("keep") is None:
        return options, there
    counted = CountedMask(123456789 - (294967296 << 32), 7, options["keep"].shape, options["p_drop"])
    return options | {"keep": slow_mask(counted)}, there | {"keep": counted}


def rounded(inputs: tuple, name: str, dtype: str) -> tuple[list, list]:
    """Inputs for the kernel, activations in ``dtype`` and parameters not, and the same values for the rule.

    Parameters are rounded too: a matrix that is not would put other hidden values on the other side of ReLU's zero.
    """
    if dtype in ("float32", "float64"):
        return list(inputs), list(inputs)
    first = PARAMETERS.get(name, len(inputs))
    half = [x.astype(dtype) for x in inputs]
    exact = [x.astype(np.float32) for x in half]
    return [*half[:first], *exact[first:]], exact


def check_kernel(case, dtype: str, device, rng, relative_error) -> None:
    """Outputs and gradients of the kernel are those of the plain rule, and no argument is written to."""
    kernel = device.kernels[case.rule.name]
    inputs, options = case.make("float64" if dtype == "float64" else "float32")
    given, inputs = rounded(inputs, case.rule.name, dtype)
    options, counted = with_counted_mask(options, device)
    expected, saved = case.rule.forward(*inputs, **options)
    there = placed(device, given)
    with mode("fast", dtype if dtype in ("bfloat16", "float16") else "float32"):
        y, kernel_saved = kernel.forward(*there, **counted)
    outputs = as_tuple(y)
    grads_y = cotangents(case.rule, as_tuple(expected), rng)
    cast = [None if g is None else g.astype(out.dtype) for g, out in zip(grads_y, outputs, strict=True)]
    grads = kernel.backward(*placed(device, cast), kernel_saved)
    assert [grad.dtype for grad in grads] == [x.dtype for x in given]
    exact = [None if g is None else g.astype(want.dtype) for g, want in zip(cast, as_tuple(expected), strict=True)]
    wanted = [*as_tuple(expected), *case.rule.backward(*exact, saved)]
    for result, want in zip([*outputs, *grads], wanted, strict=True):
        # What is rounded before ReLU may come to lie on the other side of zero: then a whole value is wrong.
        limit = CLOSE[dtype] * (3 if case.rule.name == "feed_forward" else 1)
        assert relative_error(device.get(result).astype(want.dtype), want) < limit
    for x, after in zip(given, there, strict=True):
        np.testing.assert_array_equal(device.get(after), x)  # the emulation checks const arrays too
