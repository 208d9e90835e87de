"""Twin of positioned_embedding; its backward sorts the places by their token and adds each token's rows in order."""

from __future__ import annotations

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import THREADS, blocks_for, fits_words, launch, pieces
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
    """As in ops/embedding.py; ``keep`` is a CountedMask. Here activations get the type that they are stored in."""
    xp, (n_words, width) = get_array_module(table), table.shape
    places = xp.ascontiguousarray(ids, dtype=np.int64).reshape(-1)  # (N,)
    positions = xp.ascontiguousarray(positions)
    y = xp.empty((*ids.shape, width), stored_dtype(table.dtype))
    dropout = arguments_of(keep, "positioned_embedding", y.shape)
    n_rows, n_positions = len(places), len(positions)
    arguments = (table, places, positions, y, n_rows, width, n_positions, scale, fits_words(width, table, positions))
    launch("embedding", "embed", blocks_for(pieces(n_rows, width)), (THREADS,), (*arguments, *dropout), y.dtype)
    return y, (places, n_words, n_positions, scale, dropout)


def positioned_embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/embedding.py."""
    places, n_words, n_positions, scale, dropout = saved
    xp, width = get_array_module(grad_y), grad_y.shape[-1]
    grad = rows_of(through_dropout(grad_y, dropout))  # (N, d_model)
    order = xp.argsort(places, kind="stable")  # equal tokens stay in the order of their places: same sums, same bits
    starts = xp.searchsorted(places[order], xp.arange(n_words + 1))  # (V + 1,)
    grad_table = xp.empty((n_words, width), computed_dtype(grad.dtype))
    launch(
        "embedding", "scatter_add", (n_words,), (32, 16), (grad, order, starts, grad_table, width, scale), grad.dtype
    )
    grad_positions = sum_rows(grad.reshape(-1, n_positions * width)).reshape(n_positions, width)
    return grad_table, grad_positions


positioned_embedding = Rule("positioned_embedding", positioned_embedding_forward, positioned_embedding_backward)
