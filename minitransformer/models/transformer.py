"""The whole model of Figure 1."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType

import numpy as np

from minitransformer import kernels
from minitransformer.autograd import Tensor, functions, no_grad
from minitransformer.backend import Array, to_numpy
from minitransformer.config import BOS, PAD, ModelConfig
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.kernels.precision import check_precision
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.decoder import Decoder, output_projection
from minitransformer.nn.encoder import Encoder, Memory
from minitransformer.nn.module import Module, Parameter, ParameterVector
from minitransformer.nn.positions import PositionedEmbedding
from minitransformer.nn.prefix_tree_cache import new_cache
from minitransformer.nn.randomness import DropoutMasks, Initializer


class Transformer(Module):
    """Encoder, decoder, embeddings and output projection      [sec. 3, Figure 1]

    ``model(src_ids, tgt_ids)`` gives logits; ``model.loss(...)`` what training minimises. Ids are whole numbers in
    0..V-1, padded with PAD at the end. Without a ``dropout`` source the model evaluates: there is no training mode.

    Attributes:
        config: the shape.
        parameters: all parameters, views of one vector.
        xp: the array library, NumPy or CuPy.
        precision: of `loss`, one of PRECISIONS. Everything else computes in float32, or in TF32 if this is not float32.

    Raises:
        ConfigError: the vocabulary size is missing, or the precision is not to be had with this library or config.
        ShapeError: ids are not a (B, T) array of ids in the vocabulary, or a sentence is longer than learned positions.
    """

    def __init__(self, config: ModelConfig, seed: int = 0, xp: ModuleType = np, precision: str = "float32"):
        if config.vocab_size < 1:
            raise ConfigError("model.vocab_size must be at least 1 to build a model, got 0; take it from the tokenizer")
        check_precision(precision, config, xp)
        self.config, self.xp, self.precision = config, xp, precision
        init = Initializer(seed)
        self.embedding = Parameter(init.normal(config.vocab_size, config.d_model))
        tgt_table = self.projection = self.embedding
        if not config.tie_embeddings:
            tgt_table = Parameter(init.normal(config.vocab_size, config.d_model))
            self.projection = Parameter(init.normal(config.vocab_size, config.d_model))
        self.src_embedding = PositionedEmbedding(config, self.embedding, init)
        self.tgt_embedding = PositionedEmbedding(config, tgt_table, init)
        self.encoder = Encoder(config, init)
        self.decoder = Decoder(config, init)
        self.parameters = ParameterVector(self, config.dtype, xp)

    def __call__(self, src_ids: Array, tgt_ids: Array, dropout: DropoutMasks | None = None) -> Tensor:
        """Logits of the token after each target position.

        src_ids: (B, S)   tgt_ids: (B, T), beginning with BOS   logits: (B, T, V)
        """
        with self._exactly():
            hidden = self._decoded(src_ids, tgt_ids, dropout)  # (B, T, d_model)
            return functions.linear(hidden, self.projection.transpose())  # (B, T, V)

    def loss(
        self, src_ids: Array, tgt_in: Array, tgt_out: Array, dropout: DropoutMasks | None = None
    ) -> tuple[Tensor, Tensor]:
        """(label-smoothed cross-entropy, plain negative log-likelihood), nats summed over targets that are not PAD.

        src_ids: (B, S)   tgt_in: (B, T), BOS and all tokens but the last   tgt_out: (B, T), all tokens, then EOS
        """
        with kernels.mode(self.config.kernels, self.precision):
            hidden = self._decoded(src_ids, tgt_in, dropout)
            tgt_out = self._checked_ids(tgt_out, "tgt_out")
            if tgt_out.shape != hidden.shape[:2]:
                raise ShapeError(
                    f"Transformer: tgt_out must have the shape of tgt_in, {hidden.shape[:2]}, got {tgt_out.shape}"
                )
            return functions.projection_loss(
                hidden.reshape(-1, self.config.d_model),  # (B * T, d_model)
                self.projection,
                targets=tgt_out.reshape(-1),
                label_smoothing=self.config.label_smoothing,
            )

    def _decoded(self, src_ids: Array, tgt_ids: Array, dropout: DropoutMasks | None) -> Tensor:
        memory, memory_mask = self._encoded(src_ids, dropout)
        tgt_ids = self._checked_ids(tgt_ids, "tgt_ids")
        if len(tgt_ids) != len(memory_mask):
            raise ShapeError(
                f"Transformer: sources and targets must be as many, got {len(memory_mask)} and {len(tgt_ids)}"
            )
        tgt = self.tgt_embedding(tgt_ids, dropout)  # (B, T, d_model)
        return self.decoder(tgt, memory, memory_mask, dropout)  # (B, T, d_model)

    def _encoded(self, src_ids: Array, dropout: DropoutMasks | None) -> tuple[Tensor, Array]:
        src_ids = self._checked_ids(src_ids, "src_ids")
        mask = (src_ids != PAD)[:, None, None, :]  # (B, 1, 1, S)
        return self.encoder(self.src_embedding(src_ids, dropout), mask, dropout), mask

    def encode(self, src_ids: Array) -> Memory:
        """The encoder's output for decoding, (B, S) to (B, S, d_model); nothing is recorded."""
        with no_grad(), self._exactly():
            hidden, mask = self._encoded(src_ids, None)
            return Memory(hidden.data, mask)

    @property
    def max_positions(self) -> int | None:
        """Most tokens of a sentence, with EOS or BOS, where positions are learned; else None."""
        return self.config.max_positions if self.config.positions == "learned" else None

    def start_cache(self, memory: Memory, max_length: int) -> KeyValueCache:
        """An empty cache for at most ``max_length`` target positions; computes the source's keys and values."""
        with no_grad(), self._exactly():
            source = []
            for layer in self.decoder.layers:
                keys, values = layer.cross_attention.keys_values(Tensor(memory.hidden))
                source.append((keys.data, values.data))
            start_ids = np.full(len(memory.mask), BOS)
            cache = new_cache(self.xp, start_ids, max_length, source, memory.mask)
            cache.project = output_projection(self.projection.data)
            return cache

    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        """Logits of the next token after ``last_ids``, (R,) to (R, V); ``cache`` grows by one position."""
        with no_grad(), self._exactly():
            ids = self._checked_ids(self.xp.asarray(last_ids)[:, None], "last_ids")  # (R, 1)
            if len(ids) != cache.n_rows:
                raise ShapeError(f"decode_step: last_ids must be one for each of {cache.n_rows} rows, got {len(ids)}")
            embedded = self.tgt_embedding(ids, start=cache.length)  # (R, 1, d_model)
            cache.extend()
            hidden = self.decoder.step(embedded, cache)  # (R, 1, d_model)
            return cache.project(hidden.data[:, 0])  # (R, V)

    def _exactly(self) -> AbstractContextManager:
        """Outside `loss` activations are never stored in halves: searches compare nearly equal scores."""
        return kernels.mode(self.config.kernels, "float32" if self.precision == "float32" else "tf32")

    def attention_maps(self, src_ids: Array, tgt_ids: Array) -> dict[str, np.ndarray]:
        """The weights of every attention by names such as ``decoder.1.cross_attention``, queries before keys:

        (B, H, S, S) in the encoder, (B, H, T, T) within the decoder, (B, H, T, S) from decoder to encoder.
        """
        attentions = dict(self._attentions())
        try:
            for attention in attentions.values():
                attention.maps = []
            with no_grad():
                self(src_ids, tgt_ids)
            return {name: to_numpy(attention.maps[0]) for name, attention in attentions.items()}
        finally:
            for attention in attentions.values():
                attention.maps = None

    def _attentions(self):
        for i, layer in enumerate(self.encoder.layers):
            yield f"encoder.{i}.self_attention", layer.self_attention
        for i, layer in enumerate(self.decoder.layers):
            yield f"decoder.{i}.self_attention", layer.self_attention
            yield f"decoder.{i}.cross_attention", layer.cross_attention

    def _checked_ids(self, ids: Array, name: str) -> Array:
        """``ids`` on the model's device. NumPy ids are checked: a wrong one would silently take another row."""
        if not hasattr(ids, "dtype"):
            ids = np.asarray(ids)
        if isinstance(ids, np.ndarray):
            if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
                raise ShapeError(
                    f"Transformer: {name} must be a (B, T) array of whole numbers, got {ids.dtype} {ids.shape}"
                )
            if not (ids.min() >= 0 and ids.max() < self.config.vocab_size):
                raise ShapeError(
                    f"Transformer: {name} must hold ids in 0..{self.config.vocab_size - 1}, "
                    f"got {ids.min()}..{ids.max()}; is this the tokenizer the model was trained with?"
                )
        return self.xp.asarray(ids)
