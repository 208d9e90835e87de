"""The decoder: N times masked self-attention, attention to the encoder's output, feed-forward  [sec. 3.1]."""

from __future__ import annotations

from types import ModuleType

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.nn.attention import MultiHeadAttention
from minitransformer.nn.cache import Cache, LayerCache
from minitransformer.nn.layers import FeedForward, LayerNorm, ResidualConnection
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
        self.self_attention_residual = ResidualConnection(config)
        self.cross_attention = MultiHeadAttention(config, init)
        self.cross_attention_residual = ResidualConnection(config)
        self.feed_forward = FeedForward(config, init)
        self.feed_forward_residual = ResidualConnection(config)

    def __call__(
        self, x: Tensor, memory: Tensor, causal: Array, memory_mask: Array, dropout: DropoutMasks | None = None
    ) -> Tensor:
        """x: (B, T, d_model)   memory: (B, S, d_model)   causal: (1, 1, T, T)   memory_mask: (B, 1, 1, S)"""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, causal, dropout), dropout)
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, memory_mask, dropout), dropout)
        return self.feed_forward_residual(x, lambda y: self.feed_forward(y, dropout), dropout)

    def step(self, x: Tensor, layer_cache: LayerCache, cache: Cache) -> Tensor:
        """One more position, x: (R, 1, d_model); keys and values of earlier positions come from ``layer_cache``."""
        x = self.self_attention_residual(x, lambda y: self._attend_to_past(y, layer_cache, cache))
        x = self.cross_attention_residual(x, lambda y: self._attend_to_memory(y, layer_cache, cache))
        return self.feed_forward_residual(x, self.feed_forward)

    def _attend_to_past(self, y: Tensor, layer_cache: LayerCache, cache: Cache) -> Tensor:
        keys, values = cache.append(layer_cache, *self.self_attention.keys_values(y))  # (B, H, N, d)
        queries = self.self_attention.queries(cache.together(y))  # (B, H, n, d_k): the n beginnings of a sentence
        return cache.apart(self.self_attention.attend(queries, keys, values, cache.past_mask))

    def _attend_to_memory(self, y: Tensor, layer_cache: LayerCache, cache: Cache) -> Tensor:
        queries = self.cross_attention.queries(cache.together(y))  # (B, H, n, d_k)
        return cache.apart(self.cross_attention.attend(queries, *layer_cache.memory(), cache.memory_mask))


class Decoder(Module):
    """N layers, one after the other."""

    def __init__(self, config: ModelConfig, init: Initializer):
        self.layers = [DecoderLayer(config, init) for _ in range(config.n_layers)]
        self.final_norm = LayerNorm(config.d_model) if config.norm == "pre" else None

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array, dropout: DropoutMasks | None = None) -> Tensor:
        # Padding stands at the end of a target, so no real position ever looks at it: the causal mask is enough.
        causal = causal_mask(x.shape[1], get_array_module(x.data))
        for layer in self.layers:
            x = layer(x, memory, causal, memory_mask, dropout)
        return self.final_norm(x) if self.final_norm else x

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """One more position through all layers, x: (R, 1, d_model)"""
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            x = layer.step(x, layer_cache, cache)
        return self.final_norm(x) if self.final_norm else x
