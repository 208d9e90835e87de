"""The device operations of some work: kernels, products and CuPy's own, with the bytes and FLOPs of each call.

``observed(observe)`` shows every kernel and product of this package to ``observe`` while it is called, on any device; a
`Recorder` hears of CuPy's operations too, on arrays without values.
"""

import ctypes
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.gpu.meta_arrays import Listener, host_clock
from minitransformer.backend import Array
from minitransformer.kernels.cupy import gemm, gemm_lt, launch
from minitransformer.kernels.cupy.source import source_of

ALIGNED = 16  # bytes, of rows that the fast kernels of cuBLAS can load
BYTES = {code: 2 if name.endswith("16") else int(name[5:]) // 8 for name, code in gemm.DATA_TYPES.items()}
"""Of an element, by cuBLAS's number of its type."""

MOVES = ("split_heads", "merge_heads")
"""Kernels that touch as much of each array as the smallest one has."""
FUSED_ATTENTION = {"attention_forward": 1, "attention_backward": 2}
"""Kernels that make both products of attention, so many times; their first arrays are q, k and v."""
NEVER_READ = (("adam", 4),)
"""Kernels and the positions of arrays that they write over: half_copy."""
NOT_REPEATABLE = ("sum_counts",)
"""Kernels that update integers in place: made again, they give places to which the next kernel must not write.

Others that work in place (Adam, bias, ReLU and dropout, the gradient over the logits, all that add to a gradient)
update real numbers alone. Made again, these grow, in float16 to infinity, but none is an address, and a kernel takes as
long with any of them.
"""
SEVERAL_TILES = "attention_backward, several tiles"  # it computes scores twice


@dataclass(frozen=True)
class Call:
    """A call that makes the device do something.

    kind: ``kernel``, ``CuPy``, ``product`` or ``stacked product``, or ``unaligned`` and one of these, where a factor's
        rows are not multiples of 16 bytes   reads, writes: bytes   flops: of products
    host: seconds of Python since the call before it; from `host_time.recorded`, its share of an update that nobody
        watches
    outputs: (position among the arguments, address, bytes) of each array that it may write
    """

    name: str
    kind: str
    reads: int
    writes: int
    flops: int = 0
    host: float = 0.0
    outputs: tuple[tuple[int, int, int], ...] = ()

    @property
    def bytes(self) -> int:
        return self.reads + self.writes


Observe = Callable[[Call, Callable[[], Any]], Any]
"""``observe(what is called, call)``: makes the call and returns its result."""


@contextmanager
def observed(observe: Observe) -> Iterator[None]:
    """In the block kernels and products are called through ``observe``."""
    compiled, cublas, cublas_lt = launch.compiled, _Cublas(gemm.cublas_library(), observe), gemm_lt.library()
    with_epilogues = None if cublas_lt is None else _CublasLt(cublas_lt, observe)

    def observed_compiled(file: str, kernel: str, dtype: str, names: tuple) -> Callable:
        function = compiled(file, kernel, dtype, names)

        def call(blocks: tuple, threads: tuple, arguments: tuple) -> None:
            observe(_of_kernel(file, kernel, names, arguments), lambda: function(blocks, threads, arguments))

        return call

    with (
        patch.object(launch, "compiled", observed_compiled),
        patch.object(gemm, "cublas_library", lambda: cublas),
        patch.object(gemm_lt, "library", lambda: with_epilogues),
    ):
        yield


class _Cublas:
    """cuBLAS's two functions that `gemm.py` calls; the arguments are those of cublas_api.h."""

    def __init__(self, cublas: Any, observe: Observe):
        self._cublas, self._observe = cublas, observe

    def gemmEx(self, *arguments: Any) -> None:  # noqa: N802 - cuBLAS's name
        _, _, _, m, n, k, _, _, kind, lda, _, _, ldb, beta, out, out_kind, _, compute, _ = arguments
        sizes, adds = (1, n, m, k), _value(beta, compute) != 0
        call = _of_product(sizes, BYTES[kind], (lda, ldb), out, BYTES[out_kind], adds)
        self._observe(call, lambda: self._cublas.gemmEx(*arguments))

    def gemmStridedBatchedEx(self, *arguments: Any) -> None:  # noqa: N802 - cuBLAS's name
        _, _, _, m, n, k, _, _, kind, lda, _, _, _, ldb, _, beta, out, out_kind, _, _, count, compute, _ = arguments
        sizes, adds = (count, n, m, k), _value(beta, compute) != 0
        call = _of_product(sizes, BYTES[kind], (lda, ldb), out, BYTES[out_kind], adds)
        self._observe(call, lambda: self._cublas.gemmStridedBatchedEx(*arguments))


class _CublasLt:
    """cuBLASLt's products with an epilogue."""

    def __init__(self, library: gemm_lt.Library, observe: Observe):
        self._library, self._observe = library, observe

    def multiply(self, a: Array, b: Array, bias: Array, out: Array, **options: Any) -> bool:
        n, m = out.shape
        sizes = (1, n, m, math.isqrt(a.size * b.size // (n * m)))
        call = _of_product(sizes, a.itemsize, (a.shape[1], b.shape[1]), launch.address(out), out.itemsize, False)
        return self._observe(call, lambda: self._library.multiply(a, b, bias, out, **options))


@host_clock.left_out
def _of_product(
    sizes: tuple[int, int, int, int], itemsize: int, pitches: Sequence[int], out: int, out_itemsize: int, adds: bool
) -> Call:
    """y = x w, or with ``adds`` y + x w

    sizes: how many, and n, m, k of (n, k) and (k, m)   pitches: of the factors, in elements   out: the address of y
    """
    count, n, m, k = sizes
    kind = "stacked product" if count > 1 else "product"
    if any(pitch * itemsize % ALIGNED for pitch in pitches):
        kind = f"unaligned {kind}"
    written = count * n * m * out_itemsize
    reads = count * (n * k + k * m) * itemsize + written * adds
    name = f"{f'{count:,} of ' if count > 1 else ''}{n:,} x {k:,} x {m:,}"
    return Call(name, kind, reads, written, 2 * count * n * k * m, outputs=((0, out, written),))


@host_clock.left_out
def _of_kernel(file: str, kernel: str, names: tuple, arguments: Sequence[Any]) -> Call:
    """Reads its const arrays and writes all others; whether it reads these as well, the Recorder finds out. The key of
    dropout, eight bytes, does not count."""
    given = [(i, each) for i, each in enumerate(arguments) if hasattr(each, "strides")]
    arrays = [(i, each) for i, each in given if each.shape != () and each.dtype != np.uint32]
    most = min(traffic(each) for _, each in arrays) if kernel in MOVES else math.inf
    places = [(i, launch.address(each), min(most, traffic(each))) for i, each in arrays]
    const = const_parameters(file, kernel)
    reads = {(address, size) for i, address, size in places if i in const}
    outputs = tuple(place for place in places if place[0] not in const)
    flops = FUSED_ATTENTION[kernel] * _attention_flops(*(x for _, x in arrays[:3])) if kernel in FUSED_ATTENTION else 0
    name = kernel if kernel != "attention_backward" or ("ONE_TILE", 1) in names else SEVERAL_TILES
    return Call(name, "kernel", sum(n for _, n in reads), sum(n for *_, n in outputs), flops, outputs=outputs)


def _attention_flops(q: Array, k: Array, v: Array) -> int:
    """Of q k^T and of the weights times v."""
    return 2 * (q.size * k.shape[-2] + math.prod(q.shape[:-1]) * v.shape[-2] * v.shape[-1])


@cache
def const_parameters(file: str, kernel: str) -> frozenset[int]:
    """Which parameters of a kernel point to what it only reads."""
    parameters = re.search(rf"\b{kernel}\(([^)]*)\)\s*{{", source_of(file))[1].split(",")
    return frozenset(i for i, each in enumerate(parameters) if each.strip().startswith("const ") and "*" in each)


def traffic(array: Array) -> int:
    """The bytes of an array, those of a broadcast axis once."""
    return array.itemsize * math.prod(n for n, stride in zip(array.shape, array.strides, strict=True) if stride)


def _value(address: int, compute: int) -> float:
    kind = ctypes.c_double if compute == gemm.COMPUTE_FLOAT64 else ctypes.c_float
    return kind.from_address(address).value


class Recorder(Listener):
    """The calls of an update, in order.

    A kernel's output counts as read too if, in each of its calls, something was there before: it is updated in place.
    """

    def __init__(self):
        self.calls: list[Call] = []
        self._last = host_clock.seconds()
        self._starts: list[int] = []  # addresses of arrays, in order
        self._written: set[int] = set()  # those of arrays that something has been written to
        self._in_place: dict[tuple[str, int], bool] = {}

    @host_clock.left_out
    def __call__(self, call: Call, make: Callable[[], Any]) -> Any:
        self.calls.append(replace(call, host=host_clock.seconds() - self._last))
        starts = [self._starts[bisect_right(self._starts, address) - 1] for _, address, _ in call.outputs]
        for (position, *_), start in zip(call.outputs, starts, strict=True):
            key = (call.name, position)
            updated = start in self._written and key not in NEVER_READ
            self._in_place[key] = self._in_place.get(key, True) and updated
        self._written.update(starts)
        result = make()
        self._last = host_clock.seconds()
        return result

    def allocated(self, array: np.ndarray) -> None:
        start = launch.address(array)
        first, end = bisect_left(self._starts, start), bisect_left(self._starts, start + max(1, array.nbytes))
        self._written.difference_update(self._starts[first:end])  # arrays that lay there are gone
        self._starts[first:end] = [start]

    def operation(self, name: str, reads: Sequence[np.ndarray], writes: Sequence[np.ndarray]) -> None:
        outputs = tuple((i, launch.address(each), traffic(each)) for i, each in enumerate(writes))
        self(Call(name, "CuPy", sum(map(traffic, reads)), sum(n for *_, n in outputs), outputs=outputs), lambda: None)

    def take(self) -> list[Call]:
        """The calls so far, which are forgotten."""
        calls, self.calls = self.calls, []
        return [self._with_updates(each) for each in calls]

    def _with_updates(self, call: Call) -> Call:
        """A kernel's outputs are read too where they are updated in place."""
        if call.kind != "kernel":
            return call
        return replace(call, reads=call.reads + sum(n for i, _, n in call.outputs if self._in_place[call.name, i]))
