"""A decoder-only language model: causal self-attention and feed-forward layers  [Radford et al. 2018; sec. 3.1]."""

from __future__ import annotations

import math

import numpy as np

from minitransformer.autograd import Tensor, functions, no_grad
from minitransformer.backend import Array, to_numpy
from minitransformer.config import BOS, EOS, PAD, ModelConfig
from minitransformer.models.base import Model, Workload
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.decoder import attend_to_past, causal_mask, output_projection
from minitransformer.nn.encoder import Encoder, Memory
from minitransformer.nn.module import Parameter
from minitransformer.nn.positions import PositionedEmbedding
from minitransformer.nn.prefix_tree_cache import new_cache
from minitransformer.nn.randomness import DropoutMasks, Initializer
from minitransformer.text import Batch


class LanguageModel(Model):
    """P(y_t | y_1 .. y_{t-1}): the layers of an encoder under the mask of a decoder. ``batch.src`` is not read.

    In generation the input is a prompt, (B, S), which ends in EOS and is padded; the output is what follows it.
    """

    needs_source = False

    def build(self, config: ModelConfig, init: Initializer) -> None:
        self.embedding = Parameter(init.normal(config.vocab_size, config.d_model))
        self.embed, self.layers = PositionedEmbedding(config, self.embedding, init), Encoder(config, init)

    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        with self.in_training():
            ids, targets = self.checked_ids(batch.tgt_in, "tgt_in"), self.checked_ids(batch.tgt_out, "tgt_out")
            hidden = self.layers(self.embed(ids, dropout), causal_mask(ids.shape[1], self.xp), dropout)  # (B, T, d)
            hidden, smoothing = hidden.reshape(-1, self.config.d_model), self.config.label_smoothing  # (B * T, d)
            return functions.projection_loss(
                hidden, self.embedding, targets=targets.reshape(-1), label_smoothing=smoothing
            )

    def encode(self, src_ids: Array) -> Memory:
        """BOS and the prompts, (B, 1 + S), and which of them are tokens: not EOS, not padding."""
        prompts = np.pad(to_numpy(self.checked_ids(src_ids, "src_ids")), ((0, 0), (1, 0)), constant_values=BOS)
        return Memory(prompts, (prompts != PAD) & (prompts != EOS))

    def start_cache(self, memory: Memory, max_length: int) -> KeyValueCache:
        """A cache that holds each prompt but its last token, with which the search begins."""
        lengths = memory.mask.sum(axis=1)
        with no_grad(), self.in_inference():
            start_ids = memory.hidden[np.arange(len(lengths)), lengths - 1]
            cache = new_cache(self.xp, start_ids, max_length + int(lengths.max()) - 1)
            cache.project = output_projection(self.embedding.data)
            if lengths.max() > 1:
                known = np.arange(lengths.max() - 1) < lengths[:, None] - 1  # (B, n)
                self._step(memory.hidden[:, : known.shape[1]], cache, known)
            return cache

    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        with no_grad(), self.in_inference():
            return cache.project(self._step(to_numpy(last_ids)[:, None], cache).data[:, -1])

    def _step(self, ids: np.ndarray, cache: KeyValueCache, is_token: np.ndarray | None = None) -> Tensor:
        """The newest positions, ids: (R, n), through all layers: (R, n, d_model)"""
        cache.extend(is_token)
        places = self.embed.positions(0, int(cache.positions.max()) + 1).data[np.maximum(cache.positions, 0)]
        x = functions.embedding(self.embedding, ids=self.xp.asarray(ids), scale=math.sqrt(self.config.d_model))
        x = x + Tensor(places)
        for number, layer in enumerate(self.layers.layers):
            x = layer.self_attention_residual(
                x, lambda y, layer=layer, number=number: attend_to_past(layer.self_attention, y, number, cache)
            )
            x = layer.feed_forward_residual(x, layer.feed_forward)
        return self.layers.final_norm(x) if self.layers.final_norm else x

    @classmethod
    def workload(cls, config: ModelConfig, src_length: int, tgt_length: int) -> Workload:
        layers, T = config.n_layers, tgt_length
        return Workload(((layers, T, T),), ((layers, T),), embedded=T, outputs=T)
