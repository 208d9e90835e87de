"""Products with bias and ReLU fused in: cuBLASLt's epilogues, for which CuPy has no binding.

The library is called through ctypes. Where it is not found, or has no algorithm for a product, ``biased_product``
returns None, and the caller makes the product and then a pass over it. Enumerations have the values of cublasLt.h;
Table 1 of cublasLtMatmul in cuBLAS's manual says which types may be combined.
"""

import ctypes
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

from minitransformer.backend import Array, get_array_module
from minitransformer.errors import BackendError
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import COMPUTE_FLOAT32, COMPUTE_TF32, DATA_TYPES, sizes_of
from minitransformer.kernels.cupy.launch import Counter, address, name_of
from minitransformer.kernels.cupy.libraries import cuda_library, current_device, workspace

DESC_EPILOGUE, DESC_BIAS_POINTER, DESC_BIAS_DATA_TYPE = 7, 8, 26  # cublasLtMatmulDescAttributes_t
EPILOGUE_BIAS, EPILOGUE_RELU_BIAS = 4, 6  # cublasLtEpilogue_t
PREF_MAX_WORKSPACE_BYTES, PREF_REDUCTION_SCHEME_MASK = 1, 3  # cublasLtMatmulPreferenceAttributes_t
PREF_MIN_ALIGNMENTS = (5, 6, 7, 8)  # likewise: bytes, of A, B, C and D
# cublasLtReductionScheme_t: parts of a sum may be put aside in the type that is computed in, and added up by a step of
# their own. Left out are INPLACE, where blocks take turns on the output, and parts rounded to the type of the output.
REDUCTION_SCHEME_COMPUTE_TYPE = 2
NOT_SUPPORTED = 15  # cublasStatus_t, in cublas_api.h
MAX_ALIGNMENT = 16  # bytes, of the widest load: pointers that are aligned better need no plans of their own
ONE, ZERO = c_float(1.0), c_float(0.0)


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t; the algorithm within is opaque."""

    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace_size", c_size_t),
        ("state", c_int),
        ("waves_count", c_float),
        ("reserved", c_int * 4),
    ]


class Product(NamedTuple):
    """All that decides how a product is made. cuBLASLt is column-major, so its D = A B is our y^T = b^T a^T.

    gpu: its index   sizes: rows and columns of D, and what is summed over   alignments: bytes, of A, B, C, D, bias
    """

    gpu: int
    dtype: str
    sizes: tuple[int, int, int]
    relu: bool
    tf32: bool
    alignments: tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Plan:
    """A product's descriptor, the layouts of A, B and D, and the algorithm: chosen once and kept."""

    descriptor: c_void_p
    a: c_void_p
    b: c_void_p
    d: c_void_p
    chosen: HeuristicResult


class Library:
    """libcublasLt, with what this process keeps for it: a handle for each GPU and a plan for each kind of product."""

    def __init__(self, functions: Any):
        self._functions = functions
        functions.cublasLtGetStatusName.restype = ctypes.c_char_p
        functions.cublasLtGetVersion.restype = c_size_t
        self._handles: dict[int, c_void_p] = {}
        self._plans: dict[Product, Plan | None] = {}  # some hundred bytes for each length of a batch
        self._lock = Lock()

    @property
    def version(self) -> int:
        return self._functions.cublasLtGetVersion()

    def multiply(self, a: Array, b: Array, bias: Array, out: Array, *, relu: bool, tf32: bool) -> bool:
        """out = a b + bias, or its ReLU. False: there is no algorithm for it, and nothing was done."""
        gpu, capability, stream = current_device()
        pointers = [address(each) for each in (b, a, out, out, bias)]
        alignments = tuple(min(MAX_ALIGNMENT, pointer & -pointer) for pointer in pointers)
        product = Product(gpu, name_of(a.dtype), (*out.shape[::-1], a.shape[1]), relu, tf32, alignments)
        memory = workspace(gpu, capability, stream, get_array_module(out))
        with self._lock:  # the descriptor must hold this bias until the product is launched
            if product not in self._plans:
                self._plans[product] = self._planned(product, memory.nbytes, pointers[-1])
            plan = self._plans[product]
            if plan is None:
                return False
            self._set("MatmulDesc", plan.descriptor, DESC_BIAS_POINTER, c_void_p(pointers[-1]))
            pa, pb, pc, pd, _ = map(c_void_p, pointers)
            status = self._functions.cublasLtMatmul(
                self._handle(gpu), plan.descriptor, byref(ONE), pa, plan.a, pb, plan.b, byref(ZERO), pc, plan.d, pd,
                plan.d, byref(plan.chosen.algorithm), c_void_p(address(memory)), c_size_t(memory.nbytes),
                c_void_p(stream),
            )  # fmt: skip
            if status == NOT_SUPPORTED:
                self._plans[product] = None
                self._discard(plan)
                return False
            self._check("Matmul", status)
        Counter.launches += 1
        return True

    def _planned(self, product: Product, workspace_bytes: int, bias: int) -> Plan | None:
        """The best algorithm within the workspace that gives the same bits each time, if there is one."""
        handle, (m, n, k) = self._handle(product.gpu), product.sizes
        kind = DATA_TYPES[product.dtype]
        compute = COMPUTE_TF32 if product.tf32 and product.dtype == "float32" else COMPUTE_FLOAT32
        descriptor = self._made("MatmulDesc", c_int(compute), c_int(DATA_TYPES["float32"]))
        epilogue = EPILOGUE_RELU_BIAS if product.relu else EPILOGUE_BIAS
        self._set("MatmulDesc", descriptor, DESC_EPILOGUE, c_uint32(epilogue))
        self._set("MatmulDesc", descriptor, DESC_BIAS_DATA_TYPE, c_int32(kind))
        self._set("MatmulDesc", descriptor, DESC_BIAS_POINTER, c_void_p(bias))
        layouts = (  # of matrices whose columns follow each other without gaps
            self._made("MatrixLayout", c_int(kind), c_uint64(rows), c_uint64(columns), c_int64(rows))
            for rows, columns in ((m, k), (k, n), (m, n))
        )
        plan, found = Plan(descriptor, *layouts, HeuristicResult()), c_int(0)
        preference = self._made("MatmulPreference")
        self._set("MatmulPreference", preference, PREF_MAX_WORKSPACE_BYTES, c_uint64(workspace_bytes))
        self._set("MatmulPreference", preference, PREF_REDUCTION_SCHEME_MASK, c_uint32(REDUCTION_SCHEME_COMPUTE_TYPE))
        for attribute, alignment in zip(PREF_MIN_ALIGNMENTS, product.alignments, strict=False):
            self._set("MatmulPreference", preference, attribute, c_uint32(alignment))
        status = self._functions.cublasLtMatmulAlgoGetHeuristic(
            handle, descriptor, plan.a, plan.b, plan.d, plan.d, preference, c_int(1), byref(plan.chosen), byref(found)
        )
        self._call("MatmulPreferenceDestroy", preference)
        if status == 0 and found.value > 0 and plan.chosen.state == 0:
            return plan
        self._discard(plan)
        if status != NOT_SUPPORTED:
            self._check("MatmulAlgoGetHeuristic", status)
        return None

    def _discard(self, plan: Plan) -> None:
        self._call("MatmulDescDestroy", plan.descriptor)
        for layout in (plan.a, plan.b, plan.d):
            self._call("MatrixLayoutDestroy", layout)

    def _made(self, what: str, *arguments: Any) -> c_void_p:
        new = c_void_p()
        self._call(f"{what}Create", byref(new), *arguments)
        return new

    def _set(self, what: str, target: c_void_p, attribute: int, value: Any) -> None:
        self._call(f"{what}SetAttribute", target, c_int(attribute), byref(value), c_size_t(sizeof(value)))

    def _handle(self, gpu: int) -> c_void_p:
        if gpu not in self._handles:
            self._handles[gpu] = self._made("")
        return self._handles[gpu]

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._functions, f"cublasLt{name}")(*arguments))

    def _check(self, name: str, status: int) -> None:
        if status:
            status_name = self._functions.cublasLtGetStatusName(c_int(status)).decode()
            raise BackendError(
                f"cublasLt{name}: the status must be CUBLAS_STATUS_SUCCESS, got {status_name} ({status})"
            )


def biased_product(a: Array, b: Array, bias: Array, *, relu: bool = False, tf32: bool = False) -> Array | None:
    """y = a b + bias, or with ``relu`` max(0, a b + bias); None where cuBLASLt cannot, and always for float64

    a: (n, k)   b: (k, m)   bias: (m,), of any type; used in the type of a, which Table 1 of the manual asks for
    y: (n, m), of the type of a, summed in float32   tf32: for float32 factors

    Raises:
        ShapeError: the factors do not fit together, or one is empty.
        BackendError: the library refused a call.
    """
    sizes_of(a, b, False, False)  # raises ShapeError
    found = library()
    if found is None or name_of(a.dtype) == "float64":
        return None
    xp = get_array_module(a)
    a, b, bias = (xp.ascontiguousarray(each) for each in (a, b, cast_parameter(bias, a.dtype)))
    out = xp.empty((len(a), b.shape[1]), a.dtype)
    return out if found.multiply(a, b, bias, out, relu=relu, tf32=tf32) else None


@cache
def library() -> Library | None:
    """cuBLASLt if this process can load it, which is tried once."""
    try:
        return load()
    except BackendError:
        return None


def load() -> Library:
    """The library that cuBLAS itself uses.

    Raises:
        BackendError: it is missing or cannot be loaded.
    """
    return Library(cuda_library("cublasLt"))
