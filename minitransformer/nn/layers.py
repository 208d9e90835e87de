"""The layers between attention and the stacks: norm, feed-forward, and the residual connection around each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minitransformer import kernels
from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array, get_array_module, library_name
from minitransformer.config import ModelConfig
from minitransformer.kernels import CountedMask
from minitransformer.kernels.profile import timed
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer

COUNTING = {"cupy"}
"""Libraries whose kernels draw dropout's masks by themselves."""


def draw_keep(
    dropout: DropoutMasks | None, shape: tuple[int, ...], p_drop: float, like: Tensor, across: bool = False
) -> Array | CountedMask | None:
    """A mask of what stays, or ``None`` when nothing is dropped (evaluation, or p_drop = 0).

    across: draw an array as if its last two axes were exchanged, for those who read it that way
    """
    if dropout is None or p_drop == 0.0:
        return None
    xp = get_array_module(like.data)
    if library_name(xp) in COUNTING:
        keep = dropout.counted(shape, p_drop)
        return keep.array(xp) if kernels.current_mode() == "simple" else keep
    with timed("dropout masks"):
        if across:
            return dropout.keep((*shape[:-2], shape[-1], shape[-2]), p_drop, xp).swapaxes(-1, -2)
        return dropout.keep(shape, p_drop, xp)


class LayerNorm(Module):
    """LayerNorm(x), gamma starting at 1 and beta at 0      [sec. 3.1]"""

    def __init__(self, d_model: int):
        self.gamma = Parameter(np.ones(d_model))
        self.beta = Parameter(np.zeros(d_model))

    def __call__(self, x: Tensor) -> Tensor:
        return functions.layer_norm(x, self.gamma, self.beta)


class FeedForward(Module):
    """max(0, x W1 + b1) W2 + b2      [eq. 2]"""

    def __init__(self, config: ModelConfig, init: Initializer):
        self.w1 = Parameter(init.xavier(config.d_model, config.d_ff))
        self.b1 = Parameter(np.zeros(config.d_ff))
        self.w2 = Parameter(init.xavier(config.d_ff, config.d_model))
        self.b2 = Parameter(np.zeros(config.d_model))
        self.p_drop = config.p_drop_ffn

    def __call__(self, x: Tensor, dropout: DropoutMasks | None = None) -> Tensor:
        keep = draw_keep(dropout, (*x.shape[:-1], self.b1.shape[0]), self.p_drop, x)
        return functions.feed_forward(x, self.w1, self.b1, self.w2, self.b2, keep=keep, p_drop=self.p_drop)


class ResidualConnection(Module):
    """The connection around a sub-layer, with the sub-layer's norm.

    post: LayerNorm(x + Dropout(sublayer(x)))      [sec. 3.1, as printed]
    pre:  x + Dropout(sublayer(LayerNorm(x)))      [the authors' later code; Xiong et al. 2020]
    """

    def __init__(self, config: ModelConfig):
        self.norm = LayerNorm(config.d_model)
        self.is_post = config.norm == "post"
        self.p_drop = config.p_drop

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], dropout: DropoutMasks | None = None) -> Tensor:
        y = sublayer(x if self.is_post else self.norm(x))
        keep = draw_keep(dropout, y.shape, self.p_drop, y)
        if not self.is_post:
            return functions.residual_dropout(x, y, keep=keep, p_drop=self.p_drop)
        return functions.residual_dropout_norm(x, y, self.norm.gamma, self.norm.beta, keep=keep, p_drop=self.p_drop)
