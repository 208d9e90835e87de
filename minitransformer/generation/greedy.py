"""Greedy search: always the most probable next token."""

import numpy as np

from minitransformer.backend import Array
from minitransformer.config import EOS
from minitransformer.generation.decoding import next_tokens, start_search
from minitransformer.generation.hypothesis import Hypothesis, check_alpha
from minitransformer.models import Model


def greedy_search(model: Model, src_ids: Array, *, max_extra: int = 50, alpha: float = 0.6) -> list[Hypothesis]:
    """y_t = argmax P(y | y_1 .. y_{t-1}, X) until EOS or the output limit, for each sentence.

    All sentences advance together; one that has ended leaves the batch. Of equally probable tokens the one with
    the lower id is taken. PAD and BOS are never generated.

    src_ids: (B, S), sentences that end in EOS, padded with PAD
    max_extra: the output is at most this much longer than the source, tokens (see `output_limits`)
    alpha: exponent of the length penalty in the hypotheses' scores, 0 to 100; it changes no token

    Raises: as `beam_search`.
    """
    check_alpha(alpha)
    limits, live, last_ids, cache = start_search(model, src_ids, max_extra)  # live: (R,), the unfinished sentences
    outputs: list[list[int]] = [[] for _ in limits]
    log_probs, length = np.zeros(len(limits)), 0  # length: tokens of each unfinished output so far
    while len(live):
        ids, next_log_probs = next_tokens(model, last_ids, cache, 1)  # (R, 1)
        log_probs[live] += next_log_probs[:, 0]
        last_ids, length = ids[:, 0], length + 1
        for sentence, token in zip(live, last_ids.tolist(), strict=True):
            outputs[sentence].append(token)
        unfinished = np.flatnonzero((last_ids != EOS) & (length < limits[live]))
        if len(unfinished) < len(live):
            live, last_ids = live[unfinished], last_ids[unfinished]
            cache.reorder(unfinished)
    return [
        Hypothesis.from_tokens(tokens, log_prob, alpha)
        for tokens, log_prob in zip(outputs, log_probs.tolist(), strict=True)
    ]
