"""Token ids to vectors, with positions, and the scatter-add of their gradient  [sec. 3.4, 3.5]."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.elementwise import unbroadcast
from minitransformer.ops.rule import Rule


def embedding_forward(table: Array, *, ids: Array, scale: float = 1.0) -> tuple[Array, tuple]:
    """y = scale * table[ids]      [sec. 3.4: scale = sqrt(d_model)]

    table: (V, d_model)   ids: integers in 0..V-1, (...)   y: (..., d_model)
    """
    ids = get_array_module(table).asarray(ids)  # for a single number NumPy would return a view of the table, not a copy
    y = table[ids]  # (..., d_model)
    if scale != 1.0:
        y *= scale
    return y, (table.shape, ids, scale)


def embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_table[i] = scale * the sum of grad_y over all positions where ids is i"""
    (n_rows, d_model), ids, scale = saved
    xp = get_array_module(grad_y)
    grad_table = xp.zeros(n_rows * d_model, grad_y.dtype)
    rows = ids.reshape(-1, 1).astype("int64", copy=False)  # the product would overflow in 8 or 16 bits
    flat = rows * d_model + xp.arange(d_model)  # (N, d_model), indices into the flattened table
    xp.add.at(grad_table, flat.reshape(-1), (grad_y * scale).reshape(-1))  # faster than adding rows
    return (grad_table.reshape(n_rows, d_model),)


def positioned_embedding_forward(
    table: Array, positions: Array, *, ids: Array, scale: float = 1.0, keep: Array | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """y = Dropout(scale * table[ids] + positions)      [sec. 3.4, 3.5, 5.4]

    table: (V, d_model)   ids: integers in 0..V-1, (..., T)   positions: (T, d_model)   y: (..., T, d_model)
    keep: boolean, (..., T, d_model), or None for no dropout
    """
    total, saved_embedding = embedding_forward(table, ids=ids, scale=scale)  # (..., T, d_model)
    total += positions
    y, saved_dropout = dropout_forward(total, keep=keep, p_drop=p_drop)
    return y, (saved_embedding, positions.shape, saved_dropout)


def positioned_embedding_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_positions = the sum over all sentences of Dropout'(grad_y); grad_table as in embedding"""
    saved_embedding, shape, saved_dropout = saved
    (grad_total,) = dropout_backward(grad_y, saved_dropout)
    return *embedding_backward(grad_total, saved_embedding), unbroadcast(grad_total, shape)


embedding = Rule("embedding", embedding_forward, embedding_backward)
positioned_embedding = Rule("positioned_embedding", positioned_embedding_forward, positioned_embedding_backward)
