"""Token ids to vectors, and the scatter-add that brings the gradient back to the table  [sec. 3.4]."""

from __future__ import annotations

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule


def embedding_forward(table: Array, *, ids: Array, scale: float = 1.0) -> tuple[Array, tuple]:
    """y = scale * table[ids]      [sec. 3.4: scale = sqrt(d_model)]

    table: (V, d_model)   ids: whole numbers in 0..V-1, (...)   y: (..., d_model)
    """
    y = table[ids]  # (..., d_model)
    if scale != 1.0:
        y *= scale
    return y, (table.shape, ids, scale)


def embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_table[i] = scale * the sum of grad_y over all places where ids is i"""
    (n_rows, d_model), ids, scale = saved
    xp = get_array_module(grad_y)
    grad_table = xp.zeros(n_rows * d_model, grad_y.dtype)
    places = ids.reshape(-1, 1) * d_model + xp.arange(d_model)  # (N, d_model), in the table as one row of numbers
    xp.add.at(grad_table, places.reshape(-1), (grad_y * scale).reshape(-1))  # NumPy adds rows four times as slowly
    return (grad_table.reshape(n_rows, d_model),)


embedding = Rule("embedding", embedding_forward, embedding_backward)
