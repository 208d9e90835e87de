"""The encoder: N times self-attention and feed-forward  [sec. 3.1]."""

from minitransformer.autograd import Tensor
from minitransformer.backend import Array
from minitransformer.config import ModelConfig
from minitransformer.nn.attention import MultiHeadAttention
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.decoder import attend_to_past
from minitransformer.nn.layers import FeedForward, ResidualConnection, Stack
from minitransformer.nn.module import Module
from minitransformer.nn.randomness import DropoutMasks, Initializer


class EncoderLayer(Module):
    """x = LayerNorm(x + SelfAttention(x)),   x = LayerNorm(x + FFN(x))      [sec. 3.1, with dropout as in 5.4]"""

    def __init__(self, config: ModelConfig, init: Initializer):
        self.self_attention = MultiHeadAttention(config, init)
        self.self_attention_residual = ResidualConnection(config, init)
        self.feed_forward = FeedForward(config, init)
        self.feed_forward_residual = ResidualConnection(config, init)

    def __call__(self, x: Tensor, mask: Array, dropout: DropoutMasks | None = None) -> Tensor:
        """x: (B, S, d_model)   mask: (B, 1, 1, S), True = a real token"""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, mask, dropout), dropout)
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y, dropout), dropout)

    def step(self, x: Tensor, number: int, cache: KeyValueCache) -> Tensor:
        """As `DecoderLayer.step`, for a decoder-only model"""
        x = self.self_attention_residual(x, lambda y: attend_to_past(self.self_attention, y, number, cache))
        return self.feed_forward_residual(x, self.feed_forward)


class Encoder(Stack):
    """N layers: ``encoder(x, mask, dropout)``, x: (B, S, d_model), mask: (B, 1, 1, S), True = a real token"""

    def __init__(self, config: ModelConfig, init: Initializer):
        super().__init__([EncoderLayer(config, init) for _ in range(config.n_layers)], config, init)
