"""Layer normalization: each position separately, over d_model  [Ba et al. 2016]."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule


def layer_norm_forward(x: Array, gamma: Array, beta: Array, *, eps: float = 1e-6) -> tuple[Array, tuple]:
    """y = gamma * (x - mean) / sqrt(var + eps) + beta      [Ba et al. 2016; sec. 3.1]

    x, y: (..., d_model)   gamma, beta: (d_model,)
    Where var overflows, for values above about 1e19 in float32, y is beta; where a row's sum does, y is NaN.
    """
    xp = get_array_module(x)
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)  # (..., 1)
    inv_std = 1.0 / xp.sqrt(variance + eps)
    x_hat = centered * inv_std
    return gamma * x_hat + beta, (x_hat, inv_std, gamma)


def layer_norm_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = inv_std * (g - mean(g) - x_hat * mean(g * x_hat)),   g = gamma * grad_y"""
    x_hat, inv_std, gamma = saved
    positions = tuple(range(grad_y.ndim - 1))
    grad_gamma = (grad_y * x_hat).sum(axis=positions)  # (d_model,)
    grad_beta = grad_y.sum(axis=positions)  # (d_model,)
    g = gamma * grad_y
    through_mean = g.mean(axis=-1, keepdims=True)
    through_variance = x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    grad_x = inv_std * (g - through_mean - through_variance)
    return grad_x, grad_gamma, grad_beta


layer_norm = Rule("layer_norm", layer_norm_forward, layer_norm_backward)
