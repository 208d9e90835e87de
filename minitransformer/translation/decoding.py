"""What every search does at each step: probabilities of the next token, the best of them, the output limit."""

from __future__ import annotations

import numpy as np

from minitransformer.backend import Array, get_array_module, to_numpy
from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.nn import Cache, Transformer
from minitransformer.workers import in_parts

NEVER_SAID = [PAD, BOS]
"""Ids that stand for no word. UNK may be said: it is what the model learned to say for what it cannot spell."""

BLOCK_TOKENS = 256
BLOCK_ROWS = 64  # of logits that are worked on at a time


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
    """The n most probable next tokens of each row and their ln P(token | tokens so far), both (R, n), as `best_tokens`.

    Raises:
        ShapeError: log-probabilities are not numbers.
    """
    ids, log_probs = best_tokens(model.decode_step(last_ids, cache), n)
    if np.isnan(log_probs).any():
        raise ShapeError("translate: log-probabilities must be numbers, got nan; are the model's parameters damaged?")
    return ids, log_probs


def best_tokens(logits: Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n most probable tokens of each row and their log-probabilities, both (R, n), in the order of their ids.

    Of equally probable ones those with the lower ids are taken; those that are never said are not among them, but keep
    their share of probability, so sums of these are what the model itself gives an output.

    logits: (R, V), on any device; those of tokens that are never said are overwritten
    """
    if not isinstance(logits, np.ndarray):
        return _best_of_rows(logits, n)
    ids, log_probs = np.empty((len(logits), n), dtype=np.int64), np.empty((len(logits), n))

    def best_of(rows: slice) -> None:
        for start in range(rows.start, rows.stop, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, rows.stop))
            ids[block], log_probs[block] = _best_of_rows(logits[block], n)

    in_parts(best_of, len(logits), logits.size)
    return ids, log_probs


def _best_of_rows(logits: Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """ln P = logit - ln sum exp(logits), the sum in float64 from where it is small"""
    xp = get_array_module(logits)
    largest = logits.max(axis=-1, keepdims=True)  # (R, 1)
    exps = xp.exp(logits - largest)
    total = largest + xp.log(exps.sum(axis=-1, keepdims=True, dtype=exps.dtype).astype(np.float64))  # (R, 1)
    logits[:, NEVER_SAID] = -np.inf
    ids = _best_ids(logits, n)
    return to_numpy(ids), to_numpy(xp.take_along_axis(logits, ids, axis=-1) - total)


def _best_ids(logits: Array, n: int) -> Array:
    """The n best tokens lie in the n blocks of BLOCK_TOKENS with the largest maxima, and a maximum is found far faster
    than a row is partitioned (benchmarks/notes.md)."""
    xp = get_array_module(logits)
    n_rows, n_tokens = logits.shape
    n_blocks = n_tokens // BLOCK_TOKENS
    if n_blocks <= 2 * n:
        return _best_places(logits, n)
    inside = n_blocks * BLOCK_TOKENS
    largest = logits[:, :inside].reshape(n_rows, n_blocks, BLOCK_TOKENS).max(axis=-1)  # (R, n_blocks)
    first = _best_places(largest, n)[:, :, None] * BLOCK_TOKENS  # (R, n, 1): where the best blocks begin
    within = (first + xp.arange(BLOCK_TOKENS)).reshape(n_rows, -1)  # (R, n * BLOCK_TOKENS), ascending
    rest = xp.broadcast_to(xp.arange(inside, n_tokens), (n_rows, n_tokens - inside))
    candidates = xp.concatenate([within, rest], axis=1)
    places = _best_places(xp.take_along_axis(logits, candidates, axis=-1), n)
    return xp.take_along_axis(candidates, places, axis=-1)


def _best_places(values: Array, n: int) -> Array:
    """Where the n largest of each row are, (R, n), ascending; of equal ones the first."""
    xp = get_array_module(values)
    rest = values.shape[-1] - n
    places = xp.argpartition(values, rest, axis=-1)[:, rest:]
    lowest = xp.take_along_axis(values, places, axis=-1).min(axis=-1, keepdims=True)
    tied = xp.count_nonzero(values >= lowest, axis=-1) > n  # (R,): then which of the lowest was left to chance
    if tied.any():
        places[tied] = xp.argsort(-values[tied], axis=-1, kind="stable")[:, :n]
    places.sort(axis=-1)
    return places
