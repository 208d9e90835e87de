"""Logits of decoding's steps by a transposed copy of the embedding matrix.

BLAS multiplies several rows by a transposed view half as fast, as it rearranges the view at every step: for V 37,000,
d_model 512 and two threads 31 instead of 28 ms for 128 rows, 10 instead of 5 for 4. The copy takes 24 ms and is made
once for a search, or once for all if the parameters are prepared for inference.
"""

import numpy as np

from minitransformer.kernels.numpy.gemm import is_prepared, kept_copy, matmul, packed_matmul
from minitransformer.workers import LARGE, parallel_for

COPIED_ROWS = 64  # at a time: they stay in the processor's cache


class OutputProjection:
    """hidden E^T, (R, d_model) to (R, V), for a table E, (V, d_model), that does not change as long as this is used."""

    def __init__(self, table: np.ndarray):
        self.table, self._transposed = table, None

    def __call__(self, hidden: np.ndarray) -> np.ndarray:
        logits = packed_matmul(hidden, self.table, transpose=True)
        if logits is not None:
            return logits
        if is_prepared(self.table):
            return matmul(hidden, kept_copy(self.table, transposed_copy))
        if len(hidden) == 1:  # too few to pay for the copy
            return hidden @ self.table.T
        if self._transposed is None:
            self._transposed = transposed_copy(self.table)
        return matmul(hidden, self._transposed)


def transposed_copy(table: np.ndarray) -> np.ndarray:
    """``table.T`` with contiguous rows, (V, d) to (d, V)"""
    transposed = np.empty(table.shape[::-1], table.dtype)

    def copy(columns: slice) -> None:
        for start in range(columns.start, columns.stop, COPIED_ROWS):
            part = slice(start, min(start + COPIED_ROWS, columns.stop))
            transposed[:, part] = table[part].T

    parallel_for(copy, len(table), table.size >= LARGE)
    return transposed
