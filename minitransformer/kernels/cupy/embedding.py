"""Kernels of both embeddings; their backward sorts rows by token and adds those of each token in order."""

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import blocks_for, check_arrays, fits_vec16, launch, launch_groups
from minitransformer.kernels.cupy.linear import rows_of
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.cupy.residual import through_dropout
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import compute_dtype, storage_dtype
from minitransformer.ops.rule import Rule

TILE = 32  # rows that a block adds in backward, as in embedding.cu
THREADS = 64  # of such a block


def positioned_embedding_forward(
    table: Array,
    positions: Array | None,
    *,
    ids: Array,
    scale: float = 1.0,
    keep: CountedMask | None = None,
    p_drop: float = 0.0,
) -> tuple[Array, tuple]:
    """As in ops/embedding.py; ``keep`` is a CountedMask. Here activations get their storage dtype."""
    xp, (vocab_size, width) = get_array_module(table), table.shape
    flat_ids = xp.ascontiguousarray(xp.asarray(ids, np.int64)).reshape(-1)  # (N,)
    positions = None if positions is None else xp.ascontiguousarray(positions)
    y = xp.empty((*ids.shape, width), storage_dtype(table.dtype))
    dropout = arguments_of(keep, "positioned_embedding", y.shape)
    check_arrays("positioned_embedding: positions", y.shape[-2:], table.dtype, positions)
    n_rows, n_positions = len(flat_ids), 1 if positions is None else len(positions)
    is_whole = fits_vec16(width, table, positions)
    arguments = (table, flat_ids, positions, y, n_rows, width, n_positions, scale, is_whole, *dropout)
    launch_groups("embedding", "embed", n_rows, width, arguments, y.dtype)
    return y, (flat_ids, vocab_size, n_positions, scale, dropout)


def positioned_embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/embedding.py."""
    _, _, n_positions, _, dropout = saved
    (grad_table,), width = embedding_backward(grad_y, saved), grad_y.shape[-1]
    dropped = through_dropout(rows_of(grad_y), dropout).reshape(-1, n_positions * width)
    return grad_table, sum_rows(dropped).reshape(n_positions, width)


def embedding_forward(table: Array, *, ids: Array, scale: float = 1.0) -> tuple[Array, tuple]:
    """As in ops/embedding.py."""
    return positioned_embedding_forward(table, None, ids=ids, scale=scale)


def embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/embedding.py, of Dropout'(grad_y)."""
    flat_ids, vocab_size, _, scale, dropout = saved
    xp, (n_rows, width) = get_array_module(grad_y), (len(flat_ids), grad_y.shape[-1])
    grad = rows_of(grad_y)  # (N, d_model)
    order = xp.argsort(flat_ids, kind="stable")  # a fixed order of sums: the same bits
    grad_table = xp.zeros((vocab_size, width), compute_dtype(grad.dtype))
    tiles = blocks_for(n_rows, TILE)
    parts = xp.empty((tiles, 2, width), grad_table.dtype)
    blocks, is_whole = (tiles, blocks_for(width, 8 * THREADS)), fits_vec16(width, grad, grad_table)
    how = (n_rows, width, scale, is_whole)
    arguments = (grad, flat_ids, order, grad_table, parts, *how, *dropout)
    launch("embedding", "add_tiles", blocks, (THREADS,), arguments, grad.dtype)
    launch("embedding", "add_parts", blocks, (THREADS,), (flat_ids, order, parts, grad_table, *how), grad.dtype)
    return (grad_table,)


embedding = Rule("embedding", embedding_forward, embedding_backward)
positioned_embedding = Rule("positioned_embedding", positioned_embedding_forward, positioned_embedding_backward)
