"""The whole model of Figure 1."""

import numpy as np

from minitransformer.autograd import Tensor, functions, no_grad
from minitransformer.backend import Array, to_numpy
from minitransformer.batch import Batch
from minitransformer.config import BOS, PAD, ModelConfig
from minitransformer.kernels import output_projection
from minitransformer.models.base import Model, Workload
from minitransformer.nn.attention import MultiHeadAttention
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.decoder import Decoder
from minitransformer.nn.encoder import Encoder
from minitransformer.nn.layers import Stack
from minitransformer.nn.positions import PositionedEmbedding
from minitransformer.nn.randomness import DropoutMasks, Initializer


class Transformer(Model):
    """Encoder, decoder, embeddings and output projection      [sec. 3, Figure 1]

    ``model(src_ids, tgt_ids)`` gives logits; ``model.loss(batch)`` what training minimizes. Ids are integers in
    0..V-1, padded with PAD at the end.

    Raises:
        ShapeError: ids are not a (B, T) array of ids in the vocabulary, or a sentence is longer than learned positions.
    """

    shares_prefixes = True

    def build(self, config: ModelConfig, init: Initializer) -> None:
        tgt_table = self.build_embeddings(config, init)
        self.src_embedding = PositionedEmbedding(config, self.embedding, init)
        self.tgt_embedding = PositionedEmbedding(config, tgt_table, init)
        self.encoder = self.build_encoder(config, init)
        self.decoder = Decoder(config, init)

    def build_encoder(self, config: ModelConfig, init: Initializer) -> Stack:
        """``encoder(x, mask, dropout)``, x, y: (B, S, d_model), mask: (B, 1, 1, S)"""
        return Encoder(config, init)

    def __call__(self, src_ids: Array, tgt_ids: Array, dropout: DropoutMasks | None = None) -> Tensor:
        """Logits of the token after each target position.

        src_ids: (B, S)   tgt_ids: (B, T), beginning with BOS   logits: (B, T, V)
        """
        with self.float32_activations():
            hidden = self._hidden(src_ids, tgt_ids, dropout)  # (B, T, d_model)
            return functions.linear(hidden, self.projection.transpose())  # (B, T, V)

    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        """(label-smoothed cross-entropy, plain negative log-likelihood), nats summed over targets that are not PAD.

        batch.src: (B, S)   batch.tgt_in: (B, T), BOS and all tokens but the last   batch.tgt_out: (B, T), all, then EOS
        """
        with self.autocast():
            hidden = self._hidden(batch.src, batch.tgt_in, dropout)
            return self.token_loss(hidden, self.projection, batch.tgt_out)

    def _hidden(self, src_ids: Array, tgt_ids: Array, dropout: DropoutMasks | None) -> Tensor:
        """The output of the decoder, (B, T, d_model)"""
        src_ids, tgt_ids = self.check_pair(src_ids, tgt_ids)
        memory, memory_mask = self.encode(src_ids, dropout)
        tgt = self.tgt_embedding(tgt_ids, dropout)  # (B, T, d_model)
        return self.decoder(tgt, memory, memory_mask, dropout)  # (B, T, d_model)

    def encode(self, src_ids: Array, dropout: DropoutMasks | None = None) -> tuple[Tensor, Array]:
        """The encoder's output, (B, S, d_model), and its mask, (B, 1, 1, S), True = a token; src_ids: (B, S)"""
        mask = (src_ids != PAD)[:, None, None, :]  # (B, 1, 1, S)
        return self.encoder(self.src_embedding(src_ids, dropout), mask, dropout), mask

    def start(self, src_ids: Array, max_length: int) -> KeyValueCache:
        """A cache for at most ``max_length`` target positions, with each layer's keys and values of the source."""
        with no_grad(), self.float32_activations():
            memory, mask = self.encode(self.check_ids(src_ids, "src_ids"))
            pairs = [layer.cross_attention.keys_values(memory) for layer in self.decoder.layers]
            source = [(keys.data, values.data) for keys, values in pairs]
            return KeyValueCache(self.xp, np.full(len(mask), BOS), max_length, source, mask)

    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        """Logits of the next token after ``last_ids``, (R,) to (R, V); ``cache`` grows by one position."""
        with no_grad(), self.float32_activations():
            ids = self.check_last_ids(last_ids, cache)  # (R, 1)
            embedded = self.tgt_embedding(ids, start=cache.length)  # (R, 1, d_model)
            cache.extend()
            hidden = self.decoder.step(embedded, cache)  # (R, 1, d_model)
            return output_projection(hidden.data[:, 0], self.projection.data)  # (R, V)

    @classmethod
    def workload(cls, config: ModelConfig, src_length: int, tgt_length: int) -> Workload:
        """Self-attention of both stacks and cross-attention, feed-forward layers, and logits of the target."""
        layers, S, T = config.n_layers, src_length, tgt_length
        attentions = ((layers, S, S, S), (layers, T, T, T), (layers, T, S, S))
        return Workload(attentions, ((layers, S), (layers, T)), outputs=T)

    def attention_maps(self, src_ids: Array, tgt_ids: Array) -> dict[str, np.ndarray]:
        """The weights of every attention by names such as ``decoder.1.cross_attention``, queries before keys:

        (B, H, S, S) in the encoder, (B, H, T, T) within the decoder, (B, H, T, S) from decoder to encoder.
        """
        attentions = {
            f"{side}.{i}.{name}": part
            for side, stack in (("encoder", self.encoder), ("decoder", self.decoder))
            for i, layer in enumerate(stack.layers)
            for name, part in vars(layer).items()
            if isinstance(part, MultiHeadAttention)
        }
        try:
            for attention in attentions.values():
                attention.maps = []
            with no_grad():
                self(src_ids, tgt_ids)
            return {name: to_numpy(attention.maps[0]) for name, attention in attentions.items()}
        finally:
            for attention in attentions.values():
                attention.maps = None
