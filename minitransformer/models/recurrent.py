"""The models that came before: a recurrent encoder-decoder, with or without attention  [sec. 1, sec. 2]."""

import math

import numpy as np

from minitransformer.autograd import Tensor, functions, no_grad
from minitransformer.backend import Array, to_numpy
from minitransformer.batch import Batch
from minitransformer.config import BOS, PAD, ModelConfig
from minitransformer.errors import ConfigError
from minitransformer.kernels import output_projection
from minitransformer.models.base import Model, Workload
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.module import Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer
from minitransformer.nn.recurrent import NoAttention, RecurrentDecoder, RecurrentEncoder, last_state


class RecurrentModel(Model):
    """A bidirectional GRU encoder and a GRU decoder of N layers each, ``model.attention`` between them.

    none: Cho et al. 2014, Sutskever et al. 2014   dot: Luong et al. 2015   additive: the scores of Bahdanau et al. 2015
    """

    supports_half_precision = False

    def build(self, config: ModelConfig, init: Initializer) -> None:
        if config.n_layers < 1 or config.d_model % 2:
            raise ConfigError(
                "model.n_layers must be at least 1 and model.d_model even (half for each direction of the encoder) "
                f"for the kind recurrent, got {config.n_layers} and {config.d_model}"
            )
        self.tgt_embedding = self.build_embeddings(config, init)
        self.encoder, self.decoder = RecurrentEncoder(config, init), RecurrentDecoder(config, init)

    def __call__(self, src_ids: Array, tgt_ids: Array) -> Tensor:
        """Logits of the token after each target position.   src_ids: (B, S)   tgt_ids: (B, T)   logits: (B, T, V)"""
        with self.float32_activations():
            return functions.linear(self._hidden(src_ids, tgt_ids, None), self.projection.transpose())

    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        with self.autocast():
            hidden = self._hidden(batch.src, batch.tgt_in, dropout)
            return self.token_loss(hidden, self.projection, batch.tgt_out)

    def _hidden(self, src_ids: Array, tgt_ids: Array, dropout: DropoutMasks | None) -> Tensor:
        """The output of the decoder, (B, T, d_model)"""
        src_ids, tgt_ids = self.check_pair(src_ids, tgt_ids)
        memory, mask = self._encode(src_ids, dropout)
        states = self.decoder.states(self._embed(self.tgt_embedding, tgt_ids), memory, dropout)
        return self.decoder.outputs(states, mask, self.decoder.attention.source(memory), dropout)

    def _encode(self, src_ids: Array, dropout: DropoutMasks | None) -> tuple[Tensor, Array]:
        """The encoder's output, (B, S, d_model), and where there are tokens, (B, 1, S)"""
        mask = src_ids != PAD
        return self.encoder(self._embed(self.embedding, src_ids), mask, dropout), mask[:, None]

    def _embed(self, table: Parameter, ids: Array) -> Tensor:
        """sqrt(d_model) * E[ids], (...) to (..., d_model)      [sec. 3.4]"""
        return functions.embedding(table, ids=ids, scale=math.sqrt(self.config.d_model))

    def start(self, src_ids: Array, max_length: int) -> KeyValueCache:
        """A cache whose ``layers`` hold the state of each decoder layer, (R, d_model), in place of keys and values."""
        with no_grad(), self.float32_activations():
            memory, mask = self._encode(self.check_ids(src_ids, "src_ids"), None)
            source = [each.data for each in self.decoder.attention.source(memory)]
            cache = KeyValueCache(self.xp, np.full(len(mask), BOS), max_length, [source], mask)
            cache.layers = {number: [last_state(memory).data] for number in range(self.config.n_layers)}
            return cache

    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        with no_grad(), self.float32_activations():
            ids = self.check_last_ids(last_ids, cache)
            cache.extend()
            x = self._embed(self.tgt_embedding, ids[:, 0])  # (R, d_model)
            for number, layer in enumerate(self.decoder.layers):
                x = layer.step(x, Tensor(cache.layers[number][0]))
                cache.layers[number] = [x.data]
            outputs = self.decoder.outputs(x[:, None], cache.memory_mask, tuple(map(Tensor, cache.memory[0])))
            return output_projection(outputs.data[:, 0], self.projection.data)  # (R, V)

    def attention_maps(self, src_ids: Array, tgt_ids: Array) -> dict[str, np.ndarray]:
        """The weights of the last decoder layer's attention, (B, 1, T, S), named as in `Transformer`."""
        attention = self.decoder.attention
        if isinstance(attention, NoAttention):
            raise ConfigError('attention_maps: model.attention must be dot or additive, got "none"')
        with no_grad(), self.float32_activations():
            src_ids, tgt_ids = self.check_pair(src_ids, tgt_ids)
            memory, mask = self._encode(src_ids, None)
            states = self.decoder.states(self._embed(self.tgt_embedding, tgt_ids), memory)
            weights = attention.weights(states, mask, *attention.source(memory))
            return {f"decoder.{self.config.n_layers - 1}.cross_attention": to_numpy(weights)[:, None]}

    @classmethod
    def workload(cls, config: ModelConfig, src_length: int, tgt_length: int) -> Workload:
        """The recurrent layers, attention, and logits of the target."""
        n, d, S, T = config.n_layers, config.d_model, src_length, tgt_length
        products = n * (9 * S * d * d // 2 + 6 * T * d * d) + 2 * T * d * d
        if config.attention == "dot":
            products += 2 * S * T * d
        if config.attention == "additive":
            products += (S + T) * d * d + 2 * S * T * d
        return Workload((), (), outputs=T, products=products)
