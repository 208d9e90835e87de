"""What surrounds every sub-layer: dropout on its output, the residual sum, the norm  [sec. 3.1, 5.4]."""

from minitransformer.backend import Array
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.layer_norm import layer_norm_backward, layer_norm_forward
from minitransformer.ops.rule import Rule


def residual_dropout_forward(
    x: Array, sublayer: Array, *, keep: Array | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """y = x + Dropout(sublayer)

    x, sublayer, y: the same shape   keep: boolean, that shape, or None for no dropout
    """
    dropped, saved_dropout = dropout_forward(sublayer, keep=keep, p_drop=p_drop)
    return x + dropped, saved_dropout


def residual_dropout_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y,  grad_sublayer = Dropout'(grad_y)"""
    return grad_y, *dropout_backward(grad_y, saved)


def residual_dropout_norm_forward(
    x: Array,
    sublayer: Array,
    gamma: Array,
    beta: Array,
    *,
    keep: Array | None = None,
    p_drop: float = 0.0,
    eps: float = 1e-6,
) -> tuple[Array, tuple]:
    """y = LayerNorm(x + Dropout(sublayer))      [sec. 3.1, post-norm as printed]

    x, sublayer, y: (..., d_model)   gamma, beta: (d_model,)   keep: boolean, (..., d_model), or None
    """
    total, saved_residual = residual_dropout_forward(x, sublayer, keep=keep, p_drop=p_drop)
    y, saved_norm = layer_norm_forward(total, gamma, beta, eps=eps)
    return y, (saved_residual, saved_norm)


def residual_dropout_norm_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Back through the norm, then through the sum."""
    saved_residual, saved_norm = saved
    grad_total, grad_gamma, grad_beta = layer_norm_backward(grad_y, saved_norm)
    grad_x, grad_sublayer = residual_dropout_backward(grad_total, saved_residual)
    return grad_x, grad_sublayer, grad_gamma, grad_beta


residual_dropout = Rule("residual_dropout", residual_dropout_forward, residual_dropout_backward)
residual_dropout_norm = Rule("residual_dropout_norm", residual_dropout_norm_forward, residual_dropout_norm_backward)
