"""Kernels of layer_norm and residual_dropout_norm: each value is read once and written once, forward and backward."""

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import blocks_for, check_arrays, fits_vec16, launch
from minitransformer.kernels.cupy.linear import rows_of
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import compute_dtype
from minitransformer.ops.rule import Rule

MAX_THREADS = 512  # of a block; more would leave a thread too few registers
BACKWARD_THREADS = 256  # of a block of several rows in backward, if they are short
PARTS = 512  # such blocks, which loop over the rows: as many as a large card runs at a time, four per multiprocessor


def residual_dropout_norm_forward(
    x: Array,
    sublayer: Array | None,
    gamma: Array,
    beta: Array,
    *,
    keep: CountedMask | None = None,
    p_drop: float = 0.0,
    eps: float = 1e-6,
) -> tuple[Array, tuple]:
    """As in ops/residual.py; ``keep`` is a CountedMask. Without a sublayer this is layer_norm."""
    dropout = arguments_of(keep, "residual_dropout_norm", x.shape)
    check_arrays("residual_dropout_norm: sublayer", x.shape, x.dtype, sublayer)
    check_arrays("layer_norm: gamma and beta", x.shape[-1:], compute_dtype(x.dtype), gamma, beta)
    xp, rows = get_array_module(x), rows_of(x)  # (N, d_model)
    others = None if sublayer is None else rows_of(sublayer)
    y, x_hat = xp.empty_like(rows), xp.empty_like(rows)
    n_rows, width = rows.shape
    inv_std = xp.empty(n_rows, compute_dtype(x.dtype))
    threads, groups = block_of(width)
    is_whole = fits_vec16(width, rows, others, gamma, beta)
    arguments = (rows, others, gamma, beta, y, x_hat, inv_std, width, eps, is_whole, *dropout)
    launch("norm", "norm_forward", (n_rows,), (threads,), arguments, x.dtype, GROUPS=groups)
    return y.reshape(x.shape), (x_hat, inv_std, gamma, dropout)


def residual_dropout_norm_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/residual.py."""
    x_hat, inv_std, gamma, dropout = saved
    xp, grad_rows = get_array_module(grad_y), rows_of(grad_y)
    n_rows, width = grad_rows.shape
    grad_x = xp.empty_like(grad_rows)
    grad_sublayer = xp.empty_like(grad_rows) if dropout.threshold > 0 else None
    threads, groups = block_of(width)
    at_a_time = max(1, BACKWARD_THREADS // threads)  # rows
    parts = xp.empty((min(blocks_for(n_rows, at_a_time), PARTS), 2 * width), inv_std.dtype)
    is_whole = fits_vec16(width, grad_rows, x_hat, gamma, grad_x)
    arguments = (grad_rows, x_hat, inv_std, gamma, grad_x, grad_sublayer, parts, n_rows, width)
    arguments += (is_whole, *dropout)
    launch("norm", "norm_backward", (len(parts),), (threads, at_a_time), arguments, x_hat.dtype, GROUPS=groups)
    of_gamma_and_beta = sum_rows(parts)
    grad_x = grad_x.reshape(grad_y.shape)
    grad_sublayer = grad_x if grad_sublayer is None else grad_sublayer.reshape(grad_y.shape)
    return grad_x, grad_sublayer, of_gamma_and_beta[:width], of_gamma_and_beta[width:]


def layer_norm_forward(x: Array, gamma: Array, beta: Array, *, eps: float = 1e-6) -> tuple[Array, tuple]:
    """As in ops/layer_norm.py."""
    return residual_dropout_norm_forward(x, None, gamma, beta, eps=eps)


def layer_norm_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/layer_norm.py."""
    grad_x, _, grad_gamma, grad_beta = residual_dropout_norm_backward(grad_y, saved)
    return grad_x, grad_gamma, grad_beta


def block_of(width: int) -> tuple[int, int]:
    """(threads of a block, groups of eight columns that each of them holds) for rows of ``width``"""
    n_groups = -(-width // 8)
    threads = min(MAX_THREADS, -(-n_groups // 32) * 32)
    return threads, -(-n_groups // threads)


layer_norm = Rule("layer_norm", layer_norm_forward, layer_norm_backward)
residual_dropout_norm = Rule("residual_dropout_norm", residual_dropout_norm_forward, residual_dropout_norm_backward)
