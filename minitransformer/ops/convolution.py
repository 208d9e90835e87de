"""Convolution over time: a position is joined with neighbours at fixed distances  [LeCun 1989; Gehring et al. 2017]."""

from collections.abc import Iterator

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule


def shifts(taps: int, dilation: int, length: int) -> Iterator[tuple[slice, slice]]:
    """(positions t, positions t + (j - (k - 1) / 2) dilation) for each j, as far as both lie within the sentence"""
    for j in range(taps):
        shift = (j - (taps - 1) // 2) * dilation
        before, after = min(max(-shift, 0), length), min(max(shift, 0), length)
        yield slice(before, length - after), slice(after, length - before)


def convolution_forward(
    x: Array, weight: Array, bias: Array, *, dilation: int = 1, mask: Array | None = None
) -> tuple[Array, tuple]:
    """y_t = sum_j x_{t + (j - (k - 1) / 2) dilation} W_j + b,   j = 0, ..., k - 1; zeros beyond the ends

    x: (B, T, d_in)   weight: W_0, ..., W_{k-1}, k odd, (k, d_in, d_out)   bias: (d_out,)   y: (B, T, d_out)
    dilation: distance of neighbouring j, positions, 1 or more
    mask: boolean, (B, T), True = a token; padding counts as zeros
    """
    x = x if mask is None else x * mask[..., None]
    y = get_array_module(x).zeros((*x.shape[:2], weight.shape[2]), x.dtype)
    y += bias
    for j, (here, there) in enumerate(shifts(len(weight), dilation, x.shape[1])):
        y[:, here] += x[:, there] @ weight[j]
    return y, (x, weight, dilation, mask)


def convolution_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Each product back where it came from: grad_x += grad_y W_j^T,  grad_W_j = x^T grad_y, both shifted."""
    x, weight, dilation, mask = saved
    xp = get_array_module(x)
    grad_x, grad_weight = xp.zeros_like(x), xp.empty_like(weight)
    for j, (here, there) in enumerate(shifts(len(weight), dilation, x.shape[1])):
        grad_x[:, there] += grad_y[:, here] @ weight[j].T
        grad_weight[j] = xp.tensordot(x[:, there], grad_y[:, here], axes=((0, 1), (0, 1)))
    if mask is not None:
        grad_x *= mask[..., None]
    return grad_x, grad_weight, grad_y.sum(axis=(0, 1))


convolution = Rule("convolution", convolution_forward, convolution_backward)
