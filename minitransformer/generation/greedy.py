"""Greedy search: always the most probable next token."""

import numpy as np

from minitransformer.backend import Array
from minitransformer.config import EOS
from minitransformer.generation.decoding import Allowed, next_tokens, start_search
from minitransformer.generation.hypothesis import Hypothesis, check_alpha
from minitransformer.models import Model


def greedy_search(
    model: Model, src_ids: Array, *, max_extra: int = 50, alpha: float = 0.6, allowed: Allowed | None = None
) -> list[Hypothesis]:
    """y_t = argmax P(y | y_1 .. y_{t-1}, X) until EOS or the output limit, for each sentence.

    All sentences advance together; one that has ended leaves the batch. Among equally probable tokens the one with
    the lower id is chosen. PAD and BOS are never generated.

    src_ids: (B, S), sentences that end in EOS, padded with PAD
    max_extra: the output is at most this much longer than the source, tokens (see `output_limits`)
    alpha: exponent of the length penalty in the hypotheses' scores, 0 to 100; it changes no token
    allowed: which tokens may come next, as in `beam_search`

    Raises: as `beam_search`.
    """
    check_alpha(alpha)
    limits, live, start_ids, cache = start_search(model, src_ids, max_extra)  # live: (R,), the unfinished sentences
    outputs: list[list[int]] = [[] for _ in limits]
    log_probs, tokens = np.zeros(len(limits)), start_ids[:, None]  # tokens: (R, t + 1), the start token first
    while len(live):
        ids, next_log_probs = next_tokens(model, tokens, cache, 1, allowed)  # (R, 1)
        log_probs[live] += next_log_probs[:, 0]
        tokens = np.concatenate([tokens, ids], axis=1)
        ended = (ids[:, 0] == EOS) | (tokens.shape[1] - 1 == limits[live])
        if ended.any():
            for sentence, row in zip(live[ended], tokens[ended, 1:].tolist(), strict=True):
                outputs[sentence] = row
            live, tokens = live[~ended], tokens[~ended]
            cache.reorder(np.flatnonzero(~ended))
    return [
        Hypothesis.from_tokens(tokens, log_prob, alpha)
        for tokens, log_prob in zip(outputs, log_probs.tolist(), strict=True)
    ]
