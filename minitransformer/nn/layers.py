"""Linear layers, layer norm, the feed-forward network, the residual connection around a sub-layer, stacks of layers."""

from collections.abc import Callable, Sequence
from typing import Any

from minitransformer.autograd import Tensor, functions
from minitransformer.config import ModelConfig
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer, keep_mask


class Linear(Module):
    """y = x W + b, or x W without a bias

    W consists of matrices of these ``widths`` side by side. Each is initialized with the Xavier limit for its own
    width; the limit for one matrix of the total width would be too small.
    """

    def __init__(self, d_in: int, widths: Sequence[int], init: Initializer, has_bias: bool = True):
        self.weight = Parameter(init.xavier_side_by_side(d_in, *widths))
        self.bias = Parameter(init.zeros(sum(widths))) if has_bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """x: (..., d_in)   y: (..., sum of widths)"""
        return functions.linear(x, self.weight, self.bias)


class LayerNorm(Module):
    """LayerNorm(x), gamma starting at 1 and beta at 0      [sec. 3.1]"""

    def __init__(self, d_model: int, init: Initializer | type[Initializer] = Initializer):
        self.gamma = Parameter(init.ones(d_model))
        self.beta = Parameter(init.zeros(d_model))
        self.eps = 1e-6  # under the root

    def __call__(self, x: Tensor) -> Tensor:
        return functions.layer_norm(x, self.gamma, self.beta, eps=self.eps)


class FeedForward(Module):
    """max(0, x W1 + b1) W2 + b2      [eq. 2]"""

    def __init__(self, config: ModelConfig, init: Initializer):
        self.w1 = Parameter(init.xavier(config.d_model, config.d_ff))
        self.b1 = Parameter(init.zeros(config.d_ff))
        self.w2 = Parameter(init.xavier(config.d_ff, config.d_model))
        self.b2 = Parameter(init.zeros(config.d_model))
        self.p_drop = config.p_drop_ffn

    def __call__(self, x: Tensor, dropout: DropoutMasks | None = None) -> Tensor:
        keep = keep_mask(dropout, "feed_forward", (*x.shape[:-1], self.b1.shape[0]), self.p_drop, x)
        return functions.feed_forward(x, self.w1, self.b1, self.w2, self.b2, keep=keep, p_drop=self.p_drop)


class ResidualConnection(Module):
    """The connection around a sub-layer, with the sub-layer's norm.

    post: LayerNorm(x + Dropout(sublayer(x)))      [sec. 3.1, as printed]
    pre:  x + Dropout(sublayer(LayerNorm(x)))      [the authors' later code; Xiong et al. 2020]
    """

    def __init__(self, config: ModelConfig, init: Initializer | type[Initializer] = Initializer):
        self.norm = LayerNorm(config.d_model, init)
        self.is_post = config.norm == "post"
        self.p_drop = config.p_drop

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], dropout: DropoutMasks | None = None) -> Tensor:
        y = sublayer(x if self.is_post else self.norm(x))
        keep = keep_mask(dropout, "residual_dropout", y.shape, self.p_drop, y)
        if not self.is_post:
            return functions.residual_dropout(x, y, keep=keep, p_drop=self.p_drop)
        norm, options = self.norm, {"keep": keep, "p_drop": self.p_drop}
        return functions.residual_dropout_norm(x, y, norm.gamma, norm.beta, eps=norm.eps, **options)


class Stack(Module):
    """N layers, one after the other      [sec. 3.1]. Pre-norm ends with an extra norm, since the output of the last
    layer is not normalized."""

    def __init__(self, layers: Sequence[Module], config: ModelConfig, init: Initializer):
        self.layers = layers
        self.final_norm = LayerNorm(config.d_model, init) if config.norm == "pre" else None

    def __call__(self, x: Tensor, *arguments: Any) -> Tensor:
        """x, y: (B, T, d_model)   arguments: what each layer takes besides x"""
        for layer in self.layers:
            x = layer(x, *arguments)
        return self.final_norm(x) if self.final_norm else x

    def step(self, x: Tensor, cache: KeyValueCache) -> Tensor:
        """The newest positions through all layers, x, y: (R, n, d_model)"""
        for number, layer in enumerate(self.layers):
            x = layer.step(x, number, cache)
        return self.final_norm(x) if self.final_norm else x
