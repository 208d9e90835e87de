"""A convolutional encoder layer, as of the models before the Transformer  [Table 1; Gehring et al. 2017]."""

from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array
from minitransformer.config import ModelConfig
from minitransformer.nn.layers import FeedForward, ResidualConnection
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer


class ConvolutionalLayer(Module):
    """x = LayerNorm(x + ReLU(Convolution(x))),   x = LayerNorm(x + FFN(x))

    dilation: distance of the positions that the kernel multiplies; grown by a factor from layer to layer, N layers of
        width k reach dilation^N positions instead of N k      [Kalchbrenner et al. 2016, ByteNet]
    """

    def __init__(self, config: ModelConfig, init: Initializer, dilation: int = 1):
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
        return functions.convolution(x, self.weight, self.bias, dilation=self.dilation, mask=mask).relu()
