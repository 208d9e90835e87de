"""The decoder: N times masked self-attention, attention to the encoder's output, feed-forward  [sec. 3.1]."""

from types import ModuleType

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.nn.attention import MultiHeadAttention
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.layers import FeedForward, ResidualConnection, Stack
from minitransformer.nn.module import Module
from minitransformer.nn.randomness import DropoutMasks, Initializer


def causal_mask(length: int, xp: ModuleType) -> Array:
    """True where position t may attend to position s: s <= t      [sec. 3.2.3]; (1, 1, T, T)"""
    return xp.tri(length, dtype=bool)[None, None]


class DecoderLayer(Module):
    """x = LayerNorm(x + MaskedSelfAttention(x)),   x = LayerNorm(x + CrossAttention(x, memory)),
    x = LayerNorm(x + FFN(x))      [sec. 3.1; cross-attention is the paper's encoder-decoder attention, sec. 3.2.3]
    """

    def __init__(self, config: ModelConfig, init: Initializer):
        self.self_attention = MultiHeadAttention(config, init)
        self.self_attention_residual = ResidualConnection(config, init)
        self.cross_attention = MultiHeadAttention(config, init)
        self.cross_attention_residual = ResidualConnection(config, init)
        self.feed_forward = FeedForward(config, init)
        self.feed_forward_residual = ResidualConnection(config, init)

    def __call__(
        self, x: Tensor, memory: Tensor, causal: Array, memory_mask: Array, dropout: DropoutMasks | None = None
    ) -> Tensor:
        """x: (B, T, d_model)   memory: (B, S, d_model)   causal: (1, 1, T, T)   memory_mask: (B, 1, 1, S)"""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, causal, dropout), dropout)
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, memory_mask, dropout), dropout)
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y, dropout), dropout)

    def step(self, x: Tensor, number: int, cache: KeyValueCache) -> Tensor:
        """The layer at the newest positions, x, y: (R, n, d_model); ``number``: its place in the stack and ``cache``"""
        x = self.self_attention_residual(x, lambda y: attend_to_past(self.self_attention, y, number, cache))
        x = self.cross_attention_residual(x, lambda y: attend_to_memory(self.cross_attention, y, number, cache))
        return self.feed_forward_residual(x, self.feed_forward)


def attend_to_past(attention: MultiHeadAttention, y: Tensor, layer: int, cache: KeyValueCache) -> Tensor:
    """Masked self-attention of the newest positions, (R, n, d_model), which are added to the cache."""
    keys, values = cache.append(layer, *attention.keys_values(y))
    queries = attention.queries(cache.group_by_sentence(y))
    return cache.ungroup(attention.attend(queries, keys, values, cache.mask))


def attend_to_memory(attention: MultiHeadAttention, y: Tensor, layer: int, cache: KeyValueCache) -> Tensor:
    """Cross-attention of the newest positions, (R, n, d_model), to the source's keys and values."""
    keys, values = map(Tensor, cache.memory[layer])
    queries = attention.queries(cache.group_by_sentence(y))
    return cache.ungroup(attention.attend(queries, keys, values, cache.memory_mask))


class Decoder(Stack):
    """N layers under the causal mask."""

    def __init__(self, config: ModelConfig, init: Initializer):
        super().__init__([DecoderLayer(config, init) for _ in range(config.n_layers)], config, init)

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array, dropout: DropoutMasks | None = None) -> Tensor:
        """x: (B, T, d_model)   memory: (B, S, d_model)   memory_mask: (B, 1, 1, S)"""
        # Padding is at the end of a target, so no real position ever attends to it: the causal mask is enough.
        causal = causal_mask(x.shape[1], get_array_module(x.data))
        return super().__call__(x, memory, causal, memory_mask, dropout)
