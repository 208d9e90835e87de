"""A GRU over time, forward and backward: backpropagation through time  [Cho et al. 2014; Werbos 1990]."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.gru_cell import gated_step_backward, gated_step_forward
from minitransformer.ops.linear import linear_backward, linear_forward
from minitransformer.ops.rule import Rule


def gru_forward(
    x: Array,
    h: Array,
    w_x: Array,
    w_h: Array,
    b_x: Array,
    b_h: Array,
    *,
    mask: Array | None = None,
    reverse: bool = False,
) -> tuple[Array, tuple]:
    """y_t = gru_cell(x_t, y_{t-1}), y_0 = h, over the positions t = 1, 2, ..., or from the last one to the first

    At padding the state does not change, so the last state of each row is y[:, -1], or y[:, 0] if reversed.

    x: (B, T, d_in)   h: initial state, (B, d)   y: (B, T, d)
    w_x: (d_in, 3 * d)   w_h: (d, 3 * d)   b_x, b_h: (3 * d,)   mask: boolean, (B, T), True = a token
    reverse: whether time runs backwards
    """
    projected, saved_linear = linear_forward(x, w_x, b_x)  # (B, T, 3 * d): one product for all positions
    xp, length = get_array_module(x), x.shape[1]
    y, steps = xp.empty((*x.shape[:2], h.shape[1]), h.dtype), []
    for t in reversed(range(length)) if reverse else range(length):
        new, saved_step = gated_step_forward(projected[:, t], h, w_h, b_h)
        steps.append((t, saved_step))
        h = y[:, t] = new if mask is None else xp.where(mask[:, t, None], new, h)
    return y, (saved_linear, steps, mask)


def gru_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """From the last step to the first: grad_h is the gradient that all later steps send back to the state."""
    saved_linear, steps, mask = saved
    xp, (batch, length, d) = get_array_module(grad_y), grad_y.shape
    grad_h = xp.zeros((batch, d), grad_y.dtype)
    grad_projected = xp.empty((batch, length, 3 * d), grad_y.dtype)
    grad_recurrent = xp.empty((length, batch, 3 * d), grad_y.dtype)
    for i, (t, saved_step) in reversed(list(enumerate(steps))):
        grad_h = grad_h + grad_y[:, t]
        is_token = 1.0 if mask is None else mask[:, t, None].astype(grad_y.dtype)
        grad_projected[:, t], grad_recurrent[i], grad_before = gated_step_backward(grad_h * is_token, saved_step)
        grad_h = grad_before + grad_h * (1.0 - is_token)
    grad_x, grad_w_x, grad_b_x = linear_backward(grad_projected, saved_linear)
    states = xp.concatenate([saved_step[0] for _, saved_step in steps])  # (T * B, d), before each step
    grad_rows = grad_recurrent.reshape(-1, 3 * d)
    return grad_x, grad_h, grad_w_x, states.T @ grad_rows, grad_b_x, grad_rows.sum(axis=0)


gru = Rule("gru", gru_forward, gru_backward)
