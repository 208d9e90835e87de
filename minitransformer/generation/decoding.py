"""What every search does at each step: probabilities of the next token, the best of them, the output limit."""

from __future__ import annotations

import numpy as np

from minitransformer.backend import Array, get_array_module, to_numpy
from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.models import Transformer
from minitransformer.nn import Cache
from minitransformer.workers import parallel_for

SUPPRESSED_IDS = [PAD, BOS]
"""Ids that stand for no word. UNK may be said: it is what the model learned to say for what it cannot spell."""

BLOCK_ROWS = 64  # of logits at a time: no array of exponentials is larger


def output_limits(model: Transformer, src_ids: np.ndarray, max_extra: int) -> np.ndarray:
    """Most tokens each sentence's output may have, (B,): tokens of its source + max_extra      [sec. 6.1]

    Source tokens are counted without EOS and padding. The limit is a number of steps of the decoder, each of which
    says one token or EOS; so an output of exactly this many tokens has been cut off before its EOS. With learned
    positions the limit is never above their number.

    src_ids: (B, S)   max_extra: tokens, 0 or more
    """
    if max_extra < 0:
        raise ConfigError(f"translate: max_extra must be at least 0, got {max_extra}")
    if src_ids.ndim != 2:
        raise ShapeError(f"translate: src_ids must be a (B, S) array, got {src_ids.shape}")
    limits = np.count_nonzero((src_ids != PAD) & (src_ids != EOS), axis=1) + max_extra  # (B,)
    if model.config.positions == "learned":
        limits = np.minimum(limits, model.config.max_positions)
    return limits


def next_tokens(model: Transformer, last_ids: np.ndarray, cache: Cache, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n most probable next tokens of each row and their ln P(token | tokens so far), both (R, n), as `top_k`.

    Raises:
        ShapeError: log-probabilities are not numbers.
    """
    ids, log_probs = top_k(model.decode_step(last_ids, cache), n)
    if np.isnan(log_probs).any():
        raise ShapeError("translate: log-probabilities must be numbers, got nan; are the model's parameters damaged?")
    return ids, log_probs


def top_k(logits: Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n most probable tokens of each row and their log-probabilities, both (R, n), in the order of their ids.

    Of equally probable ones those with the lower ids are taken; those that are never said are not among them, but keep
    their share of probability, so sums of these are what the model itself gives an output.

    logits: (R, V), on any device; some are overwritten
    """
    if not isinstance(logits, np.ndarray):
        return _best_of_rows(logits, n)
    ids, log_probs = np.empty((len(logits), n), dtype=np.int64), np.empty((len(logits), n))

    def best_of(rows: slice) -> None:
        for start in range(rows.start, rows.stop, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, rows.stop))
            ids[block], log_probs[block] = _best_of_rows(logits[block], n)

    parallel_for(best_of, len(logits), logits.size)
    return ids, log_probs


def _best_of_rows(logits: Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """ln P = logit - ln sum exp(logits), in float64 from the sum on.

    One token after the other: a maximum, and the first of equal ones, is found so fast that partitions are slower
    (benchmarks/notes.md).
    """
    xp = get_array_module(logits)
    largest = logits.max(axis=-1, keepdims=True)  # (R, 1)
    exps = xp.exp(logits - largest)
    total = largest + xp.log(exps.sum(axis=-1, keepdims=True).astype(np.float64))  # (R, 1)
    logits[:, SUPPRESSED_IDS] = -np.inf
    rows, ids, best = xp.arange(len(logits)), [], []
    for _ in range(n):
        ids.append(logits.argmax(axis=-1))  # (R,)
        best.append(logits[rows, ids[-1]])
        logits[rows, ids[-1]] = -np.inf
    ids, log_probs = xp.stack(ids, axis=1), xp.stack(best, axis=1) - total  # (R, n)
    order = ids.argsort(axis=-1)
    return tuple(to_numpy(xp.take_along_axis(each, order, axis=-1)) for each in (ids, log_probs))
