"""The dtype in which activations are stored and the arithmetic of products, for the model that runs now.

Parameters, their gradients, sums, softmax, norms and losses are float32 (float64 in checks) whatever the precision.
"""

from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from minitransformer.config import KERNEL_MODES
from minitransformer.errors import ConfigError, MissingPackageError, install_hint, quote


class KernelSettings(NamedTuple):
    """How rules compute: by plain pairs (``"simple"``) or kernels (``"fast"``), the latter in one of PRECISIONS."""

    mode: str = "fast"
    precision: str = "float32"


current: ContextVar[KernelSettings] = ContextVar("kernels", default=KernelSettings())  # noqa: B039 - a tuple
"""The settings in force."""


def uses_tf32() -> bool:
    """Whether products of float32 may be computed in TF32: 8 bits of exponent, 10 of fraction, summed in float32."""
    return current.get().precision == "tf32"


def storage_dtype(dtype: Any) -> np.dtype:
    """The dtype of activations for parameters of ``dtype``."""
    precision = current.get().precision
    return half_dtype(precision) if precision in ("bfloat16", "float16") else np.dtype(dtype)


def half_dtype(precision: str) -> np.dtype:
    """The dtype of ``bfloat16`` or ``float16``.

    Raises:
        MissingPackageError: bfloat16 needs ml_dtypes, which gives NumPy and CuPy that type, and it is not installed.
    """
    if precision == "float16":
        return np.dtype(np.float16)
    try:
        import ml_dtypes
    except ImportError as error:
        raise MissingPackageError(
            f"precision: bfloat16 needs the package ml_dtypes; {install_hint('cuda13')} (or cuda12)"
        ) from error
    return np.dtype(ml_dtypes.bfloat16)


def compute_dtype(dtype: Any) -> np.dtype:
    """The dtype in which values of ``dtype`` are summed: float64 for float64, else float32."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


def check_precision(precision: str, dtype: str, xp: ModuleType, kernel_mode: str) -> None:
    """Refuse a precision that would be silently slower or less exact.

    Raises:
        ConfigError: the precision is not float32, and the library is NumPy, the kernels are simple or the model is
            float64; or there is no such kernel mode.
        MissingPackageError: as in `half_dtype`.
    """
    if kernel_mode not in KERNEL_MODES:
        raise ConfigError(f"execution.kernels must be one of {', '.join(KERNEL_MODES)}, got {quote(kernel_mode)}")
    if precision == "float32":
        return
    for wrong, what in (
        (xp is np, "on the CPU"),
        (kernel_mode == "simple", 'with execution.kernels = "simple"'),
        (dtype == "float64", 'with model.dtype = "float64"'),
    ):
        if wrong:
            raise ConfigError(f"execution.precision must be float32 {what}, got {precision!r}; change one of the two")
    if precision != "tf32":
        half_dtype(precision)
