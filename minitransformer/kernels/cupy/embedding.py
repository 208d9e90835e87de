"""Kernel of positioned_embedding; its backward sorts positions by token and adds the rows of each token in order."""

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import fits_vec16, launch, launch_groups
from minitransformer.kernels.cupy.linear import rows_of
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.cupy.residual import through_dropout
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import computed_dtype, stored_dtype
from minitransformer.ops.rule import Rule


def positioned_embedding_forward(
    table: Array,
    positions: Array,
    *,
    ids: Array,
    scale: float = 1.0,
    keep: CountedMask | None = None,
    p_drop: float = 0.0,
) -> tuple[Array, tuple]:
    """As in ops/embedding.py; ``keep`` is a CountedMask. Here activations get the dtype they are stored in."""
    xp, (vocab_size, width) = get_array_module(table), table.shape
    flat_ids = xp.ascontiguousarray(ids, dtype=np.int64).reshape(-1)  # (N,)
    positions = xp.ascontiguousarray(positions)
    y = xp.empty((*ids.shape, width), stored_dtype(table.dtype))
    dropout = arguments_of(keep, "positioned_embedding", y.shape)
    n_rows, n_positions = len(flat_ids), len(positions)
    is_whole = fits_vec16(width, table, positions)
    arguments = (table, flat_ids, positions, y, n_rows, width, n_positions, scale, is_whole, *dropout)
    launch_groups("embedding", "embed", n_rows, width, arguments, y.dtype)
    return y, (flat_ids, vocab_size, n_positions, scale, dropout)


def positioned_embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/embedding.py."""
    flat_ids, vocab_size, n_positions, scale, dropout = saved
    xp, width = get_array_module(grad_y), grad_y.shape[-1]
    grad = rows_of(through_dropout(grad_y, dropout))  # (N, d_model)
    order = xp.argsort(flat_ids, kind="stable")  # a fixed order of sums: the same bits
    starts = xp.searchsorted(flat_ids[order], xp.arange(vocab_size + 1))  # (V + 1,)
    grad_table = xp.empty((vocab_size, width), computed_dtype(grad.dtype))
    arguments = (grad, order, starts, grad_table, width, scale)
    launch("embedding", "scatter_add", (vocab_size,), (32, 16), arguments, grad.dtype)
    grad_positions = sum_rows(grad.reshape(-1, n_positions * width)).reshape(n_positions, width)
    return grad_table, grad_positions


positioned_embedding = Rule("positioned_embedding", positioned_embedding_forward, positioned_embedding_backward)
