"""The peak memory of an update, computed from the shapes of the model and of a micro-batch.

It is what the fast kernels save from forward to backward, and the working memory of the largest single rule on top.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minitransformer.config import ModelConfig
from minitransformer.kernels.cupy.projection_loss import chunk_rows as cupy_chunk_rows
from minitransformer.kernels.numpy import column_blocks
from minitransformer.kernels.numpy.projection_loss import TABLE_ROWS
from minitransformer.kernels.numpy.projection_loss import chunk_rows as numpy_chunk_rows
from minitransformer.models import Workload, model_class
from minitransformer.planning.flops import parameter_count


class Shape(NamedTuple):
    """A micro-batch: sentences, and positions of each side, padding included."""

    sentences: int
    src_length: int
    tgt_length: int


@dataclass(frozen=True)
class Plan:
    """Bytes. ``peak`` is the sum of the others.

    parameters, gradients, adam: one, one and two vectors
    activations: saved by forward for backward   copies: of the parameters, in half precision
    largest: working memory of the largest rule, named in ``largest_rule``, on top of all that
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


def plan(
    config: ModelConfig, shape: Shape, *, library: str = "numpy", precision: str = "float32", workers: int = 1
) -> Plan:
    """The memory of an update with micro-batches of this shape.

    library: ``numpy`` or ``cupy``, whose kernels save different arrays   precision: on CuPy, as in ExecutionConfig
    workers: micro-batches computed at the same time, each with its own gradients and activations
    """
    parameter = np.dtype(config.dtype).itemsize
    half = precision in ("bfloat16", "float16")
    stored = 2 if half else parameter
    count = parameter_count(config)
    work = model_class(config).workload(config, shape.src_length, shape.tgt_length)
    masks = _mask_elements(config, shape.sentences, work) if library == "numpy" else 0
    matrices = _packed_elements(config) if half else 0
    needs = _working_memory(config, shape.sentences, work, library, stored, parameter)
    largest_rule, largest = max(needs.items(), key=lambda item: item[1])
    return Plan(
        parameters=parameter * count,
        gradients=workers * parameter * count,
        adam=2 * parameter * count,
        activations=workers * (stored * (_saved_elements(config, shape.sentences, work, library) + matrices) + masks),
        copies=stored * count if half else 0,
        largest=workers * largest,
        largest_rule=largest_rule,
    )


def packed_bytes(config: ModelConfig) -> int:
    """The most that translating on this machine's CPU takes besides the parameters: copies of its matrices in the
    layout that multiplies fastest, of the output projection another for many rows."""
    shapes = [shape for shape in model_class(config).parameter_shapes(config).values() if len(shape) == 2]
    transposed = config.vocab_size * config.d_model
    blocks = sum(map(math.prod, shapes)) if column_blocks.are_fast(np.dtype(config.dtype)) else 0
    return (blocks + transposed) * np.dtype(config.dtype).itemsize


def _saved_elements(config: ModelConfig, sentences: int, work: Workload, library: str) -> int:
    """Array elements that forward saves, over all layers."""
    d, heads = config.d_model, config.n_heads * (config.d_k + config.d_v)
    feed_forward = 2 * d + config.d_ff * (2 if config.p_drop_ffn else 1)  # input, x_hat of the norm, active values
    kept = work.memory * d + work.saved
    for layers, queries, keys, _ in work.attentions:
        # Input, x_hat of the norm, queries, merged heads; keys and values.
        kept += layers * (queries * (2 * d + heads) + keys * heads)
    kept += sum(layers * positions * feed_forward for layers, positions in work.feed_forwards)
    weights = sum(layers * each for layers, each in _weights(config, work, library))
    return sentences * (kept + weights * (2 if config.p_drop_attention else 1))


def _packed_elements(config: ModelConfig) -> int:
    """Elements of self-attention's matrices, which linear_qkv lays side by side in half precision and saves."""
    packed = () if config.attention_bias else ("self_attention.w_q.weight", "self_attention.w_kv.weight")
    shapes = model_class(config).parameter_shapes(config)
    return sum(math.prod(shape) for name, shape in shapes.items() if name.endswith(packed))


def _weights(config: ModelConfig, work: Workload, library: str) -> list[tuple[int, int]]:
    """Of each kind of attention, the number of layers and the attention weights of a sentence that one of them stores.

    The kernel on CuPy stores two numbers for each query instead, unless attention is restricted to nearby keys.
    """
    return [
        (layers, config.n_heads * queries * (2 if library == "cupy" and attended == keys else attended))
        for layers, queries, keys, attended in work.attentions
    ]


def _mask_elements(config: ModelConfig, sentences: int, work: Workload) -> int:
    """Elements of the dropout masks, a byte each, where they are stored."""
    masks = 0
    if config.p_drop:
        sublayers = sum(layers * queries for layers, queries, *_ in work.attentions)
        sublayers += sum(layers * positions for layers, positions in work.feed_forwards)
        masks += config.d_model * (sublayers + work.embedded)
    if config.p_drop_ffn:
        masks += config.d_ff * sum(layers * positions for layers, positions in work.feed_forwards)
    if config.p_drop_attention:
        masks += sum(layers * each for layers, each in _weights(config, work, "numpy"))
    return sentences * masks


def _working_memory(
    config: ModelConfig, sentences: int, work: Workload, library: str, stored: int, parameter: int
) -> dict[str, int]:
    """Working memory in bytes of each rule that may be the largest."""
    d, f, n, V = config.d_model, config.d_ff, sentences * work.outputs, config.vocab_size
    loss = n * d * (stored + parameter) + V * d * parameter  # input, gradients
    if library == "numpy":
        loss += parameter * (min(n, numpy_chunk_rows(V)) * V + min(TABLE_ROWS, V) * d)
        relu = n * f * (2 * stored + 1)
    else:
        loss += min(n, cupy_chunk_rows(V, stored)) * V * stored
        relu = n * f * stored
    streams = 2 * n * d * stored  # gradients of the sum and of the sub-layer
    freed = n * d * stored  # the last norm's x_hat
    weights = sentences * max((each for _, each in _weights(config, work, library)), default=0)
    attention = streams + weights * parameter + 3 * n * config.n_heads * max(config.d_k, config.d_v) * stored
    needs = {work.largest[0]: sentences * work.largest[1] * stored, "projection_loss": loss}
    if work.feed_forwards:
        needs["feed_forward"] = streams + relu + parameter * 2 * d * f - freed
    if work.attentions:
        needs["attention"] = attention - freed - n * f * stored
    return needs
