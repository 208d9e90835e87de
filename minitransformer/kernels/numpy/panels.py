"""Products of few rows with a matrix that does not change, using OpenBLAS's kernels for small matrices.

Before a large product OpenBLAS copies both factors into the order in which its kernel reads them. With few rows that
takes longer than the multiplications. Its AVX-512 kernels for small matrices read the factors in place; so the
matrix is stored in panels of columns, each small enough for them, and copied once  [Goto and van de Geijn 2008]. The
gain is in benchmarks/notes.md.
"""

import numpy as np

from minitransformer.blas import blas_kernels
from minitransformer.workers import parallel_for

HEIGHT, WIDTH = 512, 64
"""Maximum rows, and columns, of a panel. With MOST_ROWS it is below the million multiplications up to which OpenBLAS
considers a product small (its file sgemm_small_kernel_permit_skylakex.c)."""

MOST_ROWS = 16  # with more, OpenBLAS is as fast without panels; one row it treats as a matrix-vector product
MANY = 1 << 22  # multiplications from which a second thread gains more than it costs to start

WITH_SMALL_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")
"""OpenBLAS's names of the processors, of any maker, for which it has these kernels."""


def fits(a: np.ndarray, matrix: np.ndarray) -> bool:
    """Whether panels make a b faster on this processor   a: (n, k)   b: ``matrix``, (k, m)"""
    k, m = matrix.shape
    is_cut = m >= WIDTH and k % part_count(k) == 0
    is_float32 = a.dtype == matrix.dtype == np.float32
    return 1 < len(a) <= MOST_ROWS and is_cut and is_float32 and blas_kernels() in WITH_SMALL_KERNELS


def part_count(k: int) -> int:
    """The number of parts of equal height into which a matrix with k rows is cut."""
    return max(1, -(-k // HEIGHT))


def cut_into_panels(matrix: np.ndarray) -> np.ndarray:
    """A copy of the matrix, (k, m), as (m // WIDTH, parts, k / parts, WIDTH), without the last m % WIDTH columns."""
    (k, m), parts = matrix.shape, part_count(len(matrix))
    panels = matrix[:, : m - m % WIDTH].reshape(parts, k // parts, m // WIDTH, WIDTH)
    return np.ascontiguousarray(panels.transpose(2, 0, 1, 3))


def matmul(a: np.ndarray, panels: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """y = a b, for b = ``matrix``, (k, m), and its panels   a: (n, k)   y: (n, m)"""
    n, (count, parts, height, _), m = len(a), panels.shape, matrix.shape[1]
    y, whole = np.empty((n, m), a.dtype), count * WIDTH
    by_panel = y[:, :whole].reshape(n, count, WIDTH).swapaxes(0, 1)  # (count, n, WIDTH)
    a_parts = a.reshape(n, parts, height).swapaxes(0, 1)  # (parts, n, height)

    def fill(numbers: slice) -> None:
        if parts == 1:
            np.matmul(a, panels[numbers, 0], out=by_panel[numbers])
        else:
            np.add.reduce(np.matmul(a_parts, panels[numbers]), axis=1, out=by_panel[numbers])

    parallel_for(fill, count, n * panels.size > MANY)
    if whole < m:
        y[:, whole:] = a @ matrix[:, whole:]
    return y
