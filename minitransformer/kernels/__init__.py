"""Fast kernels: for some rules and array libraries, a pair with the same signature and results as the plain one.

Nothing outside asks for a kernel: `select` chooses each pair by the mode (``simple`` or ``fast``), the arrays' library
and the pairs given to `using_kernels`. README.md has a row for each kernel, with the gain that was measured.
"""

from minitransformer.kernels.masks import CountedMask, dropout_mask
from minitransformer.kernels.numpy import prepare_for_inference
from minitransformer.kernels.selection import (
    FUNCTIONS,
    KERNELS,
    fused_function,
    mode,
    output_projection,
    select,
    uses_kernel,
    using_kernels,
)

__all__ = [
    "FUNCTIONS",
    "KERNELS",
    "CountedMask",
    "dropout_mask",
    "fused_function",
    "mode",
    "output_projection",
    "prepare_for_inference",
    "select",
    "uses_kernel",
    "using_kernels",
]
