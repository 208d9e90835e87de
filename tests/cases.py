"""Every rule with the cases that tests try it on: gradients, dtypes, shapes, parity with PyTorch, kernels.

A case is one line: the rule's name, what is special, the shapes of its inputs, its options. Inputs are drawn at random;
an option that is a function is drawn with the generator too.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from minitransformer.ops.registry import RULES
from minitransformer.ops.rule import Rule


def normal(rng, shape):
    return rng.standard_normal(shape)


def positive(rng, shape):
    """Away from zero, where ln and 1/x are steep."""
    return 0.5 + rng.random(shape)


def ids(high: int, shape: tuple[int, ...]) -> Callable:
    """Integers in 0..high-1."""
    return lambda rng: rng.integers(0, high, shape)


def booleans(shape: tuple[int, ...]) -> Callable:
    """True with probability 0.7: dropout's keep."""
    return lambda rng: rng.random(shape) < 0.7


def mask(shape: tuple[int, ...]) -> Callable:
    """Random, but no row is masked everywhere."""

    def draw(rng):
        allowed = rng.random(shape) < 0.6
        np.put_along_axis(allowed, rng.integers(0, shape[-1], (*shape[:-1], 1)), True, axis=-1)
        return allowed

    return draw


def mask_with_empty_rows(shape: tuple[int, ...]) -> Callable:
    """Random, and the first row of each matrix may attend to nothing."""

    def draw(rng):
        allowed = mask(shape)(rng)
        allowed[..., 0, :] = False
        return allowed

    return draw


def causal(length: int) -> np.ndarray:
    return np.tril(np.ones((length, length), dtype=bool))


@dataclass(frozen=True)
class Case:
    rule: Rule
    what: str
    shapes: tuple[tuple[int, ...], ...]
    draw: Callable
    options: dict

    def make(self, dtype=np.float64) -> tuple[tuple[np.ndarray, ...], dict]:
        """Inputs and options, the same at every call."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        inputs = tuple(np.asarray(self.draw(rng, shape), dtype=dtype) for shape in self.shapes)
        return inputs, {name: value(rng) if callable(value) else value for name, value in self.options.items()}

    def with_rows(self, rows: int) -> "Case":
        """The same with fewer rows of the first input."""
        return replace(self, shapes=((rows, *self.shapes[0][1:]), *self.shapes[1:]))

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.what}"


def case(name: str, what: str, *shapes: tuple[int, ...], draw: Callable = normal, **options) -> Case:
    return Case(RULES[name], what, shapes, draw, options)


def value(rule: Rule, *inputs, **options):
    """What forward computes, without what it saves."""
    return rule.forward(*inputs, **options)[0]


def cotangents(rule: Rule, outputs: tuple, rng) -> tuple:
    """A random gradient for every output; outputs that are not differentiable get none."""
    active = len(outputs) - rule.n_non_differentiable
    drawn = [np.asarray(rng.standard_normal(y.shape), dtype=y.dtype) for y in outputs[:active]]
    return (*drawn, *[None] * rule.n_non_differentiable)


def outputs_and_gradients(pair: Rule, inputs, options: dict, rng, grads_y: tuple = ()) -> tuple[list, tuple]:
    """([each output, each gradient], the gradients of the outputs: those given, or random ones)"""
    y, saved = pair.forward(*inputs, **options)
    grads_y = grads_y or cotangents(pair, as_tuple(y), rng)
    return [*as_tuple(y), *pair.backward(*grads_y, saved)], grads_y


def as_tuple(outputs) -> tuple:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def padding(*lengths: int) -> np.ndarray:
    """True at the tokens of rows of these lengths, padded to the longest."""
    return np.arange(max(lengths)) < np.array(lengths)[:, None]


GRU = (3, 4, 5), (3, 6), (5, 18), (6, 18), (18,), (18,)


def _arithmetic(name: str) -> list[Case]:
    return [
        case(name, "same shapes", (3, 4), (3, 4), draw=positive),
        case(name, "a row and a batch of matrices", (2, 3, 4), (4,), draw=positive),
        case(name, "a column and a row", (2, 1), (1, 4), draw=positive),
        case(name, "a scalar and a matrix", (), (3, 4), draw=positive),
    ]


def _reduction(name: str) -> list[Case]:
    return [
        case(name, "over everything", (2, 3, 4)),
        case(name, "over the last axis", (2, 3, 4), axis=-1),
        case(name, "over two axes", (2, 3, 4), axis=(0, -1)),
        case(name, "axes kept", (2, 3, 4), axis=1, keepdims=True),
    ]


CASES = [
    *_arithmetic("add"),
    *_arithmetic("subtract"),
    *_arithmetic("multiply"),
    *_arithmetic("divide"),
    case("negative", "a matrix", (3, 4)),
    case("power", "a cube", (3, 4), exponent=3),
    case("power", "a square root", (3, 4), draw=positive, exponent=0.5),
    case("power", "an inverse square", (3, 4), draw=positive, exponent=-2.0),
    case("exp", "a matrix", (3, 4)),
    case("log", "a matrix", (3, 4), draw=positive),
    case("relu", "a matrix", (5, 6)),
    case("tanh", "a matrix", (5, 6)),
    case("erf", "a matrix", (5, 6)),
    *_reduction("sum"),
    *_reduction("mean"),
    *_reduction("max"),
    case("reshape", "to a given shape", (2, 6), shape=(3, 4)),
    case("reshape", "to rows", (2, 3, 4), shape=(-1, 4)),
    case("transpose", "two axes", (3, 4), axes=(1, 0)),
    case("transpose", "a cycle of three axes", (2, 3, 4), axes=(2, 0, 1)),
    case("broadcast", "new and stretched axes", (3, 1), shape=(2, 3, 4)),
    case("getitem", "a slice", (5, 4), index=slice(1, 4)),
    case("getitem", "a step back and an ellipsis", (5, 2, 4), index=(slice(None, None, -2), ..., 1)),
    case("getitem", "repeated rows", (5, 4), index=np.array([0, 3, 3, 1, 3])),
    case("getitem", "a list with a repeated row", (5, 4), index=[0, 3, 3]),
    case("getitem", "pairs of indices", (5, 4), index=(np.array([0, 2, 2]), np.array([1, 3, 3]))),
    case("concatenate", "two along the last axis", (2, 3, 3), (2, 3, 4)),
    case("concatenate", "three along the first axis", (1, 4), (2, 4), (3, 4), axis=0),
    case("split_heads", "one part", (2, 3, 8), n_heads=4, widths=(2,)),
    case("split_heads", "queries, keys and values", (2, 5, 21), n_heads=3, widths=(2, 2, 3)),
    case("merge_heads", "d_v of 5", (2, 3, 4, 5)),
    case("merge_heads", "more heads than d_v", (2, 5, 4, 3)),
    case("matmul", "two matrices", (3, 4), (4, 5)),
    case("matmul", "one matrix serves a batch", (2, 3, 4), (4, 5)),
    case("matmul", "batches that broadcast", (2, 1, 3, 4), (6, 4, 5)),
    case("linear", "with bias", (2, 3, 4), (4, 5), (5,)),
    case("linear", "without bias", (2, 3, 4), (4, 5)),
    case("linear", "one position", (4,), (4, 5), (5,)),
    case("softmax", "plain", (3, 4)),
    case("softmax", "masked", (2, 3, 5), mask=mask((2, 3, 5))),
    case("softmax", "one mask serves a batch", (2, 4, 4), mask=causal(4)),
    case("softmax", "some rows may attend to nothing", (2, 3, 5), mask=mask_with_empty_rows((2, 3, 5))),
    case("log_softmax", "plain", (2, 3, 4)),
    case("attention", "plain", (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7)),
    case("attention", "causal", (2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 2), mask=causal(4)),
    case("attention", "padding", (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7), mask=mask((2, 1, 1, 6))),
    case("attention", "empty rows", (2, 4, 5), (2, 6, 5), (2, 6, 7), mask=mask_with_empty_rows((2, 4, 6))),
    case("attention", "dropout", (2, 4, 5), (2, 6, 5), (2, 6, 7), keep=booleans((2, 4, 6)), p_drop=0.3),
    case("attention", "one head", (4, 5), (6, 5), (6, 7), mask=mask((4, 6)), keep=booleans((4, 6)), p_drop=0.3),
    case("additive_attention", "plain", (2, 4, 5), (2, 6, 5), (2, 6, 7), (5,)),
    case("additive_attention", "padding", (2, 4, 5), (2, 6, 5), (2, 6, 7), (5,), mask=mask((2, 1, 6))),
    case("additive_attention", "one sentence", (4, 5), (6, 5), (6, 7), (5,)),
    case("gru_cell", "one step", (3, 4), (3, 5), (4, 15), (5, 15), (15,), (15,)),
    case("gru_cell", "a batch of two axes", (2, 3, 4), (2, 3, 5), (4, 15), (5, 15), (15,), (15,)),
    case("gru", "no padding", *GRU),
    case("gru", "padding", *GRU, mask=padding(4, 1, 2)),
    case("gru", "backwards in time, padding", *GRU, mask=padding(2, 4, 1), reverse=True),
    case("layer_norm", "a batch", (2, 3, 8), (8,), (8,)),
    case("layer_norm", "large eps", (5, 8), (8,), (8,), eps=0.3),
    case("feed_forward", "plain", (2, 3, 4), (4, 6), (6,), (6, 4), (4,)),
    case("feed_forward", "dropout", (5, 4), (4, 6), (6,), (6, 4), (4,), keep=booleans((5, 6)), p_drop=0.3),
    case("embedding", "plain", (7, 5), ids=ids(7, (2, 4))),
    case("embedding", "scaled", (7, 4), ids=ids(7, (2, 5)), scale=2.5),
    case("embedding", "one id everywhere", (7, 4), ids=np.full((2, 5), 3)),
    case("positioned_embedding", "plain", (7, 4), (5, 4), ids=ids(7, (2, 5))),
    case("positioned_embedding", "scaled", (7, 4), (5, 4), ids=ids(7, (2, 5)), scale=2.5),
    case("positioned_embedding", "one sentence", (7, 4), (5, 4), ids=ids(7, (5,)), keep=booleans((5, 4)), p_drop=0.3),
    case("positioned_embedding", "keep", (7, 4), (5, 4), ids=ids(7, (2, 5)), keep=booleans((2, 5, 4)), p_drop=0.3),
    case("dropout", "keep given", (4, 6), keep=booleans((4, 6)), p_drop=0.3),
    case("dropout", "off", (4, 6), keep=None, p_drop=0.3),
    case("residual_dropout", "off", (2, 3, 4), (2, 3, 4)),
    case("residual_dropout", "keep given", (2, 3, 4), (2, 3, 4), keep=booleans((2, 3, 4)), p_drop=0.3),
    case("residual_dropout_norm", "off", (2, 3, 8), (2, 3, 8), (8,), (8,)),
    case("residual_dropout_norm", "keep", (6, 8), (6, 8), (8,), (8,), keep=booleans((6, 8)), p_drop=0.3, eps=0.01),
    case("cross_entropy", "plain", (6, 9), targets=ids(9, (6,))),
    case("cross_entropy", "smoothed, padded", (6, 9), targets=np.array([3, 0, 8, 0, 1, 3]), label_smoothing=0.1),
    case("cross_entropy", "padding is 4", (6, 9), targets=np.array([3, 0, 4, 0, 1, 3]), label_smoothing=0.3, pad_id=4),
    case("projection_loss", "plain", (6, 4), (9, 4), targets=ids(9, (6,))),
    case("projection_loss", "smoothed", (6, 4), (9, 4), targets=np.array([3, 0, 8, 0, 1, 3]), label_smoothing=0.1),
    case("projection_loss", "padding is 4", (3, 4), (9, 4), targets=np.array([3, 0, 4]), label_smoothing=0.1, pad_id=4),
]
