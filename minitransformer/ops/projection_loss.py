"""The last step of training: output projection, softmax and label-smoothed cross-entropy in one rule  [sec. 3.4, 5.4].

This is the plain rule: it holds all logits, (N, V). Its fast kernel works in chunks and never does.
"""

from minitransformer.backend import Array
from minitransformer.config import PAD
from minitransformer.ops.cross_entropy import cross_entropy_backward, cross_entropy_forward
from minitransformer.ops.linear import linear_backward, linear_forward
from minitransformer.ops.rule import Rule


def projection_loss_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[tuple[Array, Array], tuple]:
    """logits = x E^T, then loss and nll as in cross_entropy      [sec. 3.4: E is the embedding matrix]

    x: (N, d_model)   table: (V, d_model)   targets: (N,), pad_id ignored   loss, nll: (), nats summed over targets
    """
    logits, saved_linear = linear_forward(x, table.T)  # (N, V)
    losses, saved_loss = cross_entropy_forward(logits, targets=targets, label_smoothing=label_smoothing, pad_id=pad_id)
    return losses, (saved_linear, saved_loss)


def projection_loss_backward(grad_loss: Array, grad_nll: None, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_logits E,  grad_E = grad_logits^T x"""
    saved_linear, saved_loss = saved
    (grad_logits,) = cross_entropy_backward(grad_loss, grad_nll, saved_loss)
    grad_x, grad_table_transposed = linear_backward(grad_logits, saved_linear)
    return grad_x, grad_table_transposed.T


projection_loss = Rule("projection_loss", projection_loss_forward, projection_loss_backward, n_non_differentiable=1)
