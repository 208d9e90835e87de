"""An encoder of convolutions over time, as in models before the Transformer  [Table 1; Gehring et al. 2017]."""

from collections.abc import Iterator
from dataclasses import dataclass

from minitransformer.autograd import Tensor
from minitransformer.autograd.tensor import apply
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError
from minitransformer.models import Transformer, Workload
from minitransformer.nn import DropoutMasks, Module, Parameter
from minitransformer.nn.layers import FeedForward, ResidualConnection, Stack
from minitransformer.nn.randomness import Initializer
from minitransformer.ops.rule import Rule
from minitransformer.settings import option


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
    dilation: distance of neighboring j, positions, 1 or more
    mask: boolean, (B, T), True = a token; padding counts as zeros
    """
    x = x if mask is None else x * mask[..., None]
    y = get_array_module(x).zeros((*x.shape[:2], weight.shape[2]), x.dtype)
    y += bias
    for j, (here, there) in enumerate(shifts(len(weight), dilation, x.shape[1])):
        y[:, here] += x[:, there] @ weight[j]
    return y, (x, weight, dilation, mask)


def convolution_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Each product goes back where it came from: grad_x += grad_y W_j^T,  grad_W_j = x^T grad_y, both shifted."""
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


@dataclass(frozen=True)
class ConvolutionConfig(ModelConfig):
    """The options of a Transformer, and those of its encoder's convolutions."""

    kernel_size: int = option(3, "k, positions that a convolution joins, an odd number", low=1)
    dilation: int = option(1, "factor by which the distance of these positions grows from layer to layer", low=1)

    def __post_init__(self):
        super().__post_init__()
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"model.kernel_size must be odd, got {self.kernel_size}")


class ConvolutionalLayer(Module):
    """x = LayerNorm(x + ReLU(Convolution(x))),   x = LayerNorm(x + FFN(x))

    dilation: distance of the positions that the kernel multiplies; grown by a factor from layer to layer, N layers of
        width k reach dilation^N positions instead of N k      [Kalchbrenner et al. 2016, ByteNet]
    """

    def __init__(self, config: ConvolutionConfig, init: Initializer, dilation: int):
        k, d = config.kernel_size, config.d_model
        self.weight, self.bias = Parameter(init.xavier(k * d, d).reshape(k, d, d)), Parameter(init.zeros(d))
        self.dilation = dilation
        self.convolution_residual = ResidualConnection(config, init)
        self.feed_forward = FeedForward(config, init)
        self.feed_forward_residual = ResidualConnection(config, init)

    def __call__(self, x: Tensor, mask: Array, dropout: DropoutMasks | None = None) -> Tensor:
        """x: (B, S, d_model)   mask: (B, 1, 1, S), True = a token"""
        x = self.convolution_residual(x, lambda y: self.convolution(y, mask[:, 0, 0]), dropout)
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y, dropout), dropout)

    def convolution(self, x: Tensor, mask: Array) -> Tensor:
        """ReLU(Convolution(x)).   x: (B, S, d_model)   mask: (B, S)"""
        return apply(convolution, x, self.weight, self.bias, dilation=self.dilation, mask=mask).relu()


class ConvolutionalEncoder(Stack):
    """N layers: ``encoder(x, mask, dropout)``, x: (B, S, d_model), mask: (B, 1, 1, S), True = a token"""

    def __init__(self, config: ConvolutionConfig, init: Initializer):
        layers = [ConvolutionalLayer(config, init, config.dilation**i) for i in range(config.n_layers)]
        super().__init__(layers, config, init)


class ConvolutionalTransformer(Transformer):
    """A Transformer with convolutions in place of the encoder's self-attention."""

    supports_half_precision = False

    def build_encoder(self, config: ConvolutionConfig, init: Initializer) -> Stack:
        return ConvolutionalEncoder(config, init)

    @classmethod
    def workload(cls, config: ConvolutionConfig, src_length: int, tgt_length: int) -> Workload:
        work, d = super().workload(config, src_length, tgt_length), config.d_model
        products = config.n_layers * src_length * config.kernel_size * d * d
        return work._replace(attentions=work.attentions[1:], products=products)
