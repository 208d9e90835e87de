"""How much memory an update takes at its peak, computed from the shape of the model and of a micro-batch.

What is kept from forward to backward follows from what each twin saves; what comes on top at the peak is what the
largest single rule needs for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitransformer.config import ModelConfig
from minitransformer.kernels.cupy.projection_loss import chunk_rows as cupy_chunk_rows
from minitransformer.kernels.numpy.projection_loss import TABLE_ROWS
from minitransformer.kernels.numpy.projection_loss import chunk_rows as numpy_chunk_rows

PARAMETER_VECTORS = 4  # parameters, gradients, Adam's two


@dataclass(frozen=True)
class Shape:
    """A micro-batch: sentences, and positions of each side, padding included."""

    sentences: int
    src_length: int
    tgt_length: int

    @property
    def src(self) -> int:
        return self.sentences * self.src_length

    @property
    def tgt(self) -> int:
        return self.sentences * self.tgt_length


@dataclass(frozen=True)
class Plan:
    """Bytes. ``peak`` is the sum of the others.

    parameters, gradients, adam: one, one and two vectors
    activations: what forward keeps for backward   copies: matrices in halves, kept beside them
    largest: what the largest rule needs for itself while all of that is there; its name is in ``largest_rule``
    """

    parameters: int
    gradients: int
    adam: int
    activations: int
    copies: int
    largest: int
    largest_rule: str

    @property
    def peak(self) -> int:
        return self.parameters + self.gradients + self.adam + self.activations + self.copies + self.largest


def parameter_count(config: ModelConfig) -> int:
    """Numbers that are learned      [Table 3, last column]"""
    d, heads = config.d_model, config.n_heads * (config.d_k + config.d_v)
    attention = 2 * d * heads
    if config.attention_bias:
        attention += heads + config.n_heads * config.d_k + d
    feed_forward = 2 * d * config.d_ff + config.d_ff + d
    layers = config.n_layers * (3 * attention + 2 * feed_forward + 5 * 2 * d)
    tables = 1 if config.tie_embeddings else 3
    learned = 2 * config.max_positions * d if config.positions == "learned" else 0
    final_norms = 2 * 2 * d if config.norm == "pre" else 0
    return tables * config.vocab_size * d + learned + layers + final_norms


def plan(
    config: ModelConfig, shape: Shape, *, library: str = "numpy", precision: str = "float32", workers: int = 1
) -> Plan:
    """The memory of an update with micro-batches of this shape.

    library: ``numpy`` or ``cupy``, whose twins keep different things   precision: on CuPy, as TrainingConfig.precision
    workers: micro-batches side by side, each with gradients and activations of its own
    """
    parameter = np.dtype(config.dtype).itemsize
    half = precision in ("bfloat16", "float16")
    stored = 2 if half else parameter
    count = parameter_count(config)
    masks = _mask_elements(config, shape) if library == "numpy" else 0
    largest_rule, largest = max(
        _working_memory(config, shape, library, stored, parameter).items(), key=lambda item: item[1]
    )
    return Plan(
        parameters=parameter * count,
        gradients=workers * parameter * count,
        adam=2 * parameter * count,
        activations=workers * (stored * _saved_elements(config, shape) + masks),
        copies=stored * count if half else 0,
        largest=workers * largest,
        largest_rule=largest_rule,
    )


def _saved_elements(config: ModelConfig, shape: Shape) -> int:
    """Numbers that forward keeps, over all layers."""
    d, f, src, tgt = config.d_model, config.d_ff, shape.src, shape.tgt
    heads = config.n_heads * (config.d_k + config.d_v)
    feed_forward = 2 * d + f + (f if config.p_drop_ffn else 0)  # input, x_hat of the norm, active values (twice)
    attention = 2 * d + heads  # input, x_hat of the norm, queries, heads brought together
    encoder = src * (attention + heads + feed_forward)  # and keys, values
    decoder = tgt * (2 * attention + heads + feed_forward) + src * heads
    scores = sum(_scores(config, shape)) * (2 if config.p_drop_attention else 1)
    return config.n_layers * (encoder + decoder) + scores + src * d  # and the encoder's output


def _scores(config: ModelConfig, shape: Shape) -> tuple[int, int, int]:
    """Attention weights of all layers: in the encoder, in the decoder, from decoder to encoder."""
    each = config.n_layers * config.n_heads * shape.sentences
    S, T = shape.src_length, shape.tgt_length
    return each * S * S, each * T * T, each * T * S


def _mask_elements(config: ModelConfig, shape: Shape) -> int:
    """Masks of dropout, a byte each, where they are stored."""
    src, tgt, layers = shape.src, shape.tgt, config.n_layers
    masks = 0
    if config.p_drop:
        masks += config.d_model * (src * (2 * layers + 1) + tgt * (3 * layers + 1))
    if config.p_drop_ffn:
        masks += layers * config.d_ff * (src + tgt)
    if config.p_drop_attention:
        masks += sum(_scores(config, shape))
    return masks


def _working_memory(config: ModelConfig, shape: Shape, library: str, stored: int, parameter: int) -> dict[str, int]:
    """Bytes beside what is saved, for each rule that may be the largest."""
    d, f, tgt, words = config.d_model, config.d_ff, shape.tgt, config.vocab_size
    loss = tgt * d * (stored + parameter) + words * d * parameter  # input, gradients
    if library == "numpy":
        loss += parameter * (min(tgt, numpy_chunk_rows(words)) * words + min(TABLE_ROWS, words) * d)
        relu = tgt * f * (2 * stored + 1)
    else:
        chunk = min(tgt, cupy_chunk_rows(words)) * words
        loss += chunk * (parameter + (stored if stored < parameter else 0))
        relu = tgt * f * stored
    streams = 2 * tgt * d * stored  # gradients of the sum and of the sub-layer
    freed = tgt * d * stored  # the last norm's x_hat
    longest = max(each // max(1, config.n_layers) for each in _scores(config, shape))
    attention = streams + longest * parameter + 3 * tgt * config.n_heads * max(config.d_k, config.d_v) * stored
    return {
        "projection_loss": loss,
        "feed_forward": streams + relu + parameter * 2 * d * f - freed,
        "attention": attention - freed - tgt * f * stored,
    }
