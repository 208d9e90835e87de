"""The matrix products of some work, recorded and then run alone by the same libraries: the floor under that work."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minitransformer.kernels.numpy.gemm import matmul
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks
from minitransformer.text import Batch


@dataclass(frozen=True)
class Operand:
    """The memory layout of an operand, with strides in elements, so that a transposed view stays one."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def elements(self) -> int:
        return 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True)
class Product:
    """One call of ``a @ b``. depth: length of the longest chain of products that ends with it, each needing the one
    before"""

    a: Operand
    b: Operand
    dtype: str
    depth: int = field(default=1, compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*np.broadcast_shapes(self.a.shape[:-2], self.b.shape[:-2]), self.a.shape[-2], self.b.shape[-1])

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each of n * k * m, times the batch."""
        return 2 * math.prod(self.shape) * self.a.shape[-1]


class _Watched(np.ndarray):
    """An array that records each product of two matrices in which it is used; arrays computed from it are watched too.

    Products with a vector, or a matrix of one row or column, are left out: they are row sums in another guise.
    """

    products: list[Product] = []
    depth = 0  # of the longest chain of products that it is computed from

    def __array_finalize__(self, source):
        self.depth = getattr(source, "depth", 0)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.depth = max(self.depth, _depth(value))

    def __array_function__(self, function, types, args, kwargs):
        result = super().__array_function__(function, types, args, kwargs)
        return _watched(result, _depth([*args, *kwargs.values()]))

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        depth = _depth([*inputs, *options.values()])
        plain = [_unwatched(value) for value in inputs]
        options = {name: _unwatched(value) for name, value in options.items()}
        if ufunc is np.matmul and not any(value.ndim == 1 or 1 in value.shape[-2:] for value in plain):
            depth += 1
            self.products.append(Product(*map(_operand, plain), plain[0].dtype.name, depth))
        if out:
            getattr(ufunc, method)(*plain, out=tuple(map(_unwatched, out)), **options)
        result = out or getattr(ufunc, method)(*plain, **options)
        results = [_watched(each, depth) for each in (result if isinstance(result, tuple) else (result,))]
        return results[0] if len(results) == 1 else tuple(results)


def _watched(value, depth: int):
    if isinstance(value, np.ndarray):
        value = value if isinstance(value, _Watched) else value.view(_Watched)
        value.depth = depth
    return value


def _depth(value) -> int:
    """The depth of a watched array, or the greatest in a list or tuple of them; 0 for anything else."""
    if isinstance(value, list | tuple):
        return max(map(_depth, value), default=0)
    return getattr(value, "depth", 0)


def _unwatched(value):
    return value.view(np.ndarray) if isinstance(value, _Watched) else value


def _operand(array: np.ndarray) -> Operand:
    return Operand(array.shape, tuple(stride // array.itemsize for stride in array.strides))


def products_of(function: Callable[..., object], *arrays: np.ndarray) -> list[Product]:
    """The matrix products, in order, of ``function(*arrays)``."""
    _Watched.products.clear()
    function(*(array.view(_Watched) for array in arrays))
    return list(_Watched.products)


def record_step(model: Transformer, batch: Batch) -> list[Product]:
    """The products of one forward and backward pass with dropout, in which the parameters of ``model`` are watched."""
    _Watched.products.clear()
    parameters = [model.parameters[name] for name in model.parameters.names]
    try:
        for parameter in parameters:
            parameter.data = parameter.data.view(_Watched)
        model.parameters.zero_grad()
        loss, _ = model.loss(batch, DropoutMasks(0))
        loss.backward()
    finally:
        for parameter in parameters:
            parameter.data = _unwatched(parameter.data)
    return list(_Watched.products)


def replay(products: list[Product]) -> Callable[[], None]:
    """A function that runs these products and nothing else, on random operands with the recorded memory layout.

    Operands with the same layout share their memory, and results are written over old ones: no allocation is timed.
    """
    rng = np.random.default_rng(0)
    arrays: dict[tuple, np.ndarray] = {}

    def array(role: str, operand: Operand, dtype: str) -> np.ndarray:
        key = (role, operand, dtype)
        if key not in arrays:
            values = rng.standard_normal(operand.elements()).astype(dtype)
            arrays[key] = as_strided(values, operand.shape, [stride * values.itemsize for stride in operand.strides])
        return arrays[key]

    def result(product: Product) -> np.ndarray:
        return arrays.setdefault(("out", product.shape, product.dtype), np.empty(product.shape, product.dtype))

    calls = [
        (array("a", product.a, product.dtype), array("b", product.b, product.dtype), result(product))
        for product in products
    ]

    def run() -> None:
        for a, b, out in calls:
            matmul(a, b, out=out)

    return run
