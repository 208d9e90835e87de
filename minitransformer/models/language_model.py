"""A decoder-only language model: causal self-attention and feed-forward layers  [Radford et al. 2018; sec. 3.1]."""

import numpy as np

from minitransformer.autograd import Tensor, no_grad
from minitransformer.backend import Array, to_numpy
from minitransformer.batch import Batch
from minitransformer.config import BOS, EOS, PAD, ModelConfig
from minitransformer.kernels import output_projection
from minitransformer.models.base import Model, Workload
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.decoder import causal_mask
from minitransformer.nn.encoder import Encoder
from minitransformer.nn.module import Parameter
from minitransformer.nn.positions import PositionedEmbedding
from minitransformer.nn.randomness import DropoutMasks, Initializer


class LanguageModel(Model):
    """P(y_t | y_1 ... y_{t-1}): the layers of an encoder under the mask of a decoder. ``batch.src`` is not read."""

    is_decoder_only = shares_prefixes = True  # a prompt, (B, S), ends in EOS and is padded

    def build(self, config: ModelConfig, init: Initializer) -> None:
        self.embedding = Parameter(init.normal(config.vocab_size, config.d_model))
        self.embed, self.layers = PositionedEmbedding(config, self.embedding, init), Encoder(config, init)

    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        with self.autocast():
            x = self.embed(self.check_ids(batch.tgt_in, "tgt_in"), dropout)  # (B, T, d_model)
            x = self.layers(x, causal_mask(x.shape[1], self.xp), dropout)
            return self.token_loss(x, self.embedding, batch.tgt_out)

    def start(self, src_ids: Array, max_length: int) -> KeyValueCache:
        """A cache that holds BOS and each prompt but its last token, with which the search begins, and has room for
        ``max_length`` tokens."""
        ids = np.pad(to_numpy(self.check_ids(src_ids, "src_ids")), ((0, 0), (1, 0)), constant_values=BOS)  # (B, 1 + S)
        known = ((ids != PAD) & (ids != EOS)).sum(axis=1) - 1  # (B,)
        with no_grad(), self.float32_activations():
            cache = KeyValueCache(self.xp, ids[np.arange(len(known)), known], max_length + int(known.max()))
            if known.max() > 0:
                cache.extend(np.arange(known.max()) < known[:, None])
                self._step(ids[:, : known.max()], cache)
            return cache

    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        with no_grad(), self.float32_activations():
            ids = self.check_last_ids(last_ids, cache)
            cache.extend()
            hidden = self._step(ids, cache)  # (R, 1, d_model)
            return output_projection(hidden.data[:, 0], self.embedding.data)  # (R, V)

    def _step(self, ids: Array, cache: KeyValueCache) -> Tensor:
        return self.layers.step(self.embed.at(self.xp.asarray(ids), np.maximum(cache.positions, 0)), cache)

    @classmethod
    def workload(cls, config: ModelConfig, src_length: int, tgt_length: int) -> Workload:
        n, T = config.n_layers, tgt_length
        return Workload(attentions=((n, T, T, T),), feed_forwards=((n, T),), outputs=T)
