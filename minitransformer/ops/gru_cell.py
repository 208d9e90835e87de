"""The gated recurrent unit: one step of a recurrent network  [Cho et al. 2014]."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.linear import linear_backward, linear_forward
from minitransformer.ops.rule import Rule


def gated_step_forward(projected: Array, h: Array, w_h: Array, b_h: Array) -> tuple[Array, tuple]:
    """`gru_cell` with its input already projected.   projected: x W_x + b_x, (..., 3 d)"""
    d, xp = h.shape[-1], get_array_module(h)
    recurrent = h @ w_h + b_h  # (..., 3 d)
    gates = 0.5 * xp.tanh(0.5 * (projected[..., : 2 * d] + recurrent[..., : 2 * d])) + 0.5  # sigmoid without overflow
    r, z, recurrent_n = gates[..., :d], gates[..., d:], recurrent[..., 2 * d :].copy()  # so that the rest is freed
    n = xp.tanh(projected[..., 2 * d :] + r * recurrent_n)
    return n + z * (h - n), (h, w_h, r, z, n, recurrent_n)


def gated_step_backward(grad_y: Array, saved: tuple) -> tuple[Array, Array, Array]:
    """The gradients of x W_x + b_x and h W_h + b_h, (..., 3 d) each, and of h, (..., d)

    r', z' and n' are what the sigmoids and tanh are applied to:
    grad_n' = grad_y * (1 - z) * (1 - n^2),  grad_z' = grad_y * (h - n) * z * (1 - z),
    grad_r' = grad_n' * (h W_hn + b_hn) * r * (1 - r),  grad_h = grad_y * z + grad_recurrent W_h^T
    """
    h, w_h, r, z, n, recurrent_n = saved
    xp = get_array_module(h)
    grad_n = grad_y * (1.0 - z) * (1.0 - n * n)
    grad_z = grad_y * (h - n) * z * (1.0 - z)
    grad_r = grad_n * recurrent_n * r * (1.0 - r)
    grad_projected = xp.concatenate([grad_r, grad_z, grad_n], axis=-1)
    grad_recurrent = xp.concatenate([grad_r, grad_z, grad_n * r], axis=-1)
    return grad_projected, grad_recurrent, grad_y * z + grad_recurrent @ w_h.T


def gru_cell_forward(x: Array, h: Array, w_x: Array, w_h: Array, b_x: Array, b_h: Array) -> tuple[Array, tuple]:
    """r = sigmoid(x W_xr + b_xr + h W_hr + b_hr)       reset gate
    z = sigmoid(x W_xz + b_xz + h W_hz + b_hz)       update gate
    n = tanh(x W_xn + b_xn + r * (h W_hn + b_hn))    candidate
    y = (1 - z) * n + z * h                          new state      [Cho et al. 2014, eq. 5 to 8]

    As in cuDNN and PyTorch, the reset gate follows the product with W_hn; Cho et al. apply it before: (r * h) W_hn.
    W_xr, W_xz and W_xn are stored side by side in w_x, and likewise the others in w_h, b_x and b_h.

    x: (..., d_in)   h, y: (..., d)   w_x: (d_in, 3 * d)   w_h: (d, 3 * d)   b_x, b_h: (3 * d,)
    """
    projected, saved_linear = linear_forward(x, w_x, b_x)
    y, saved_step = gated_step_forward(projected, h, w_h, b_h)
    return y, (saved_linear, saved_step)


def gru_cell_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Through the gates, then through both projections."""
    saved_linear, saved_step = saved
    grad_projected, grad_recurrent, grad_h = gated_step_backward(grad_y, saved_step)
    grad_x, grad_w_x, grad_b_x = linear_backward(grad_projected, saved_linear)
    h_rows, grad_rows = (each.reshape(-1, each.shape[-1]) for each in (saved_step[0], grad_recurrent))
    return grad_x, grad_h, grad_w_x, h_rows.T @ grad_rows, grad_b_x, grad_rows.sum(axis=0)


gru_cell = Rule("gru_cell", gru_cell_forward, gru_cell_backward)
