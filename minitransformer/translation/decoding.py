"""What every search does at each step: probabilities of the next token, the best of them, the output limit."""

from __future__ import annotations

import numpy as np

from minitransformer.backend import Array, get_array_module, to_numpy
from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.nn import Cache, Transformer
from minitransformer.ops.softmax import log_softmax_forward

NEVER_SAID = [PAD, BOS]
"""Ids that stand for no word. UNK may be said: it is what the model learned to say for what it cannot spell."""


BLOCK_TOKENS = 256


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


def next_log_probs(model: Transformer, last_ids: np.ndarray, cache: Cache) -> Array:
    """ln P(next token | tokens so far) of each row, (R,) to (R, V); -inf where a token is never said.

    The forbidden tokens keep their share of probability, so sums of these are what the model itself gives an output.
    """
    log_probs, _ = log_softmax_forward(model.decode_step(last_ids, cache))  # (R, V)
    log_probs[:, NEVER_SAID] = -np.inf
    return log_probs


def best_tokens(log_probs: Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n most probable tokens of each row and their log-probabilities, both (R, n), in the order of their ids.

    Of equally probable ones those with the lower ids are taken. log_probs: (R, V), on any device

    The n best tokens lie in the n blocks of BLOCK_TOKENS with the largest maxima, and a maximum is found far faster
    than a row is partitioned (benchmarks/notes.md).
    """
    xp = get_array_module(log_probs)
    n_rows, n_tokens = log_probs.shape
    n_blocks = n_tokens // BLOCK_TOKENS
    if n_blocks <= 2 * n:
        ids = _best_places(log_probs, n)
    else:
        inside = n_blocks * BLOCK_TOKENS
        largest = log_probs[:, :inside].reshape(n_rows, n_blocks, BLOCK_TOKENS).max(axis=-1)  # (R, n_blocks)
        first = _best_places(largest, n)[:, :, None] * BLOCK_TOKENS  # (R, n, 1): where the best blocks begin
        within = (first + xp.arange(BLOCK_TOKENS)).reshape(n_rows, -1)  # (R, n * BLOCK_TOKENS), ascending
        rest = xp.broadcast_to(xp.arange(inside, n_tokens), (n_rows, n_tokens - inside))
        candidates = xp.concatenate([within, rest], axis=1)
        places = _best_places(xp.take_along_axis(log_probs, candidates, axis=-1), n)
        ids = xp.take_along_axis(candidates, places, axis=-1)
    return to_numpy(ids), checked(to_numpy(xp.take_along_axis(log_probs, ids, axis=-1)))


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


def checked(log_probs: np.ndarray) -> np.ndarray:
    """``log_probs`` in float64, unless there is NaN among them."""
    if np.isnan(log_probs).any():
        raise ShapeError("translate: log-probabilities must be numbers, got nan; are the model's parameters damaged?")
    return log_probs.astype(np.float64)
