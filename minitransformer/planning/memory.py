"""The peak memory of an update, from what small batches need.

What forward keeps for backward, and what backward adds, grow linearly with the number of sentences and of layers. So
batches of two and three sentences go through models of one and two layers, with the real widths, vocabulary and
lengths; the rest is extrapolated. Only the logits are counted separately: the loss never holds those of all tokens.
"""

import tracemalloc
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from minitransformer.batch import pad_batch
from minitransformer.config import UNK, ModelConfig
from minitransformer.kernels.numpy.projection_loss import chunk_rows
from minitransformer.models import Model, build_model
from minitransformer.nn import DropoutMasks
from minitransformer.planning.flops import parameter_count


class MemoryPlan(NamedTuple):
    """Bytes.

    parameters, gradients, adam: one, one and two vectors; gradients for each worker
    activations: saved by forward for backward   working: what backward, or the logits, need on top of that
    per_sentence: what one more sentence adds
    """

    parameters: int
    gradients: int
    adam: int
    activations: int
    working: int
    per_sentence: int

    @property
    def peak(self) -> int:
        return self.parameters + self.gradients + self.adam + self.activations + self.working


def plan_memory(config: ModelConfig, sentences: int, src_length: int, tgt_length: int, workers: int = 1) -> MemoryPlan:
    """The memory of an update on the CPU, without Python and its libraries.

    sentences: of a micro-batch   src_length, tgt_length: positions of a sentence, padding and end mark included
    workers: micro-batches computed at the same time, each with its own gradients and activations
    """
    vector = parameter_count(config) * np.dtype(config.dtype).itemsize
    models = (build_model(replace(config, n_layers=layers)) for layers in (1, 2))
    # The first batch is not counted: it also makes what lasts.
    one, both = (np.array([measure(model, n, src_length, tgt_length) for n in (1, 2, 3)])[1:] for model in models)
    two, three = one + (config.n_layers - 1) * (both - one)
    kept, peak = (int(each) for each in two + (sentences - 2) * (three - two))
    rows = min(sentences * tgt_length, chunk_rows(config.vocab_size))
    working = max(peak - kept, rows * config.vocab_size * np.dtype(config.dtype).itemsize)
    per_sentence = workers * int((three - two).max())
    return MemoryPlan(vector, workers * vector, 2 * vector, workers * kept, workers * working, per_sentence)


def measure(model: Model, sentences: int, src_length: int, tgt_length: int) -> tuple[int, int]:
    """(bytes that the tape holds after forward, peak of backward), without parameters and their gradients."""
    src, tgt = ([[UNK] * (length - 1)] * sentences for length in (src_length, tgt_length))  # and the end mark
    tracemalloc.start()
    try:
        loss, _ = model.loss(pad_batch(src, tgt), DropoutMasks(0))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        loss.backward()
        return kept, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
