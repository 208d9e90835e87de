"""What every search does: the output limits, its cache, and at each step the most probable next tokens."""

from collections.abc import Callable

import numpy as np

from minitransformer.backend import Array, get_array_module, to_numpy
from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.models import Model
from minitransformer.nn import KeyValueCache, PrefixTreeCache
from minitransformer.workers import LARGE, parallel_for

Allowed = Callable[[np.ndarray], np.ndarray]
"""Which tokens may come next: maps prefixes, (R, t), the tokens generated so far, to a boolean (R, V), True = may."""

SUPPRESSED_IDS = [PAD, BOS]
"""Ids that are never generated. UNK may be: it is what the model learned to generate for what it cannot spell."""

BLOCK_ROWS = 64  # of logits at a time: no array of exponentials is larger


def output_limits(model: Model, src_ids: np.ndarray, max_extra: int) -> np.ndarray:
    """The maximum number of tokens of each sentence's output, (B,): tokens of its source + max_extra      [sec. 6.1]

    Source tokens are counted without EOS and padding. The limit is a number of decoding steps, each of which generates
    one token or EOS; so an output of exactly this many tokens has been cut off before its EOS. The limit never exceeds
    the model's ``max_positions``, less the tokens of a prompt that the output continues.

    src_ids: (B, S)   max_extra: tokens, 0 or more

    Raises:
        ConfigError: max_extra is negative.
        ShapeError: src_ids is not a (B, S) array, or a prompt leaves no position for a token.
    """
    if max_extra < 0:
        raise ConfigError(f"translate: max_extra must be at least 0, got {max_extra}")
    if src_ids.ndim != 2:
        raise ShapeError(f"translate: src_ids must be a (B, S) array, got {src_ids.shape}")
    n_tokens = np.count_nonzero((src_ids != PAD) & (src_ids != EOS), axis=1)  # (B,)
    limits = n_tokens + max_extra
    if model.max_positions is None:
        return limits
    free = model.max_positions - n_tokens * model.is_decoder_only  # (B,)
    if (free < 1).any():
        raise ShapeError(
            f"translate: a prompt must have fewer tokens than model.max_positions = {model.max_positions}, "
            f"got {n_tokens.max()}; shorten it"
        )
    return np.minimum(limits, free)


def start_search(
    model: Model, src_ids: Array, max_extra: int, beam_size: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray, KeyValueCache | None]:
    """(limits, sentences, start_ids, cache): the `output_limits`, (B,); the sentences whose limit is not 0, (R,); the
    token to feed first for each of them, (R,); and their cache, None if there are no such sentences."""
    src_ids = to_numpy(src_ids)
    limits = output_limits(model, src_ids, max_extra)
    sentences = np.flatnonzero(limits)
    if not len(sentences):
        return limits, sentences, sentences, None
    cache = model.start(src_ids[sentences], int(limits.max()))
    if beam_size > 1 and getattr(model, "shares_prefixes", False):
        cache = PrefixTreeCache(cache)
    return limits, sentences, cache.start_ids, cache


def next_tokens(
    model: Model, tokens: np.ndarray, cache: KeyValueCache, k: int, allowed: Allowed | None
) -> tuple[np.ndarray, np.ndarray]:
    """The k most probable next tokens of each row and their ln P(token | tokens so far), both (R, k), as `top_k`; -inf
    where fewer than k are allowed.

    tokens: (R, t + 1), the start token and those generated so far

    Raises:
        ShapeError: log-probabilities are NaN, or ``allowed`` returns no boolean (R, V), or a row of it allows nothing.
    """
    logits = model.decode_step(tokens[:, -1], cache)
    mask = None if allowed is None else check_allowed(allowed(tokens[:, 1:]), logits.shape)
    ids, log_probs = top_k(logits, k, mask)
    return ids, check_numbers(log_probs)


def check_numbers(log_probs: np.ndarray) -> np.ndarray:
    """``log_probs``; ShapeError if one is NaN."""
    if np.isnan(log_probs).any():
        raise ShapeError("translate: log-probabilities must be numbers, got NaN; are the model's parameters damaged?")
    return log_probs


def check_allowed(mask: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """``mask`` without the suppressed ids.

    Raises:
        ShapeError: it is not a boolean array of this shape, (R, V), or a row of it allows nothing.
    """
    mask = np.array(mask)
    if mask.dtype != bool or mask.shape != shape:
        raise ShapeError(f"translate: allowed must give a boolean {shape} array, got {mask.dtype} {mask.shape}")
    mask[:, SUPPRESSED_IDS] = False
    if not mask.any(axis=1).all():
        raise ShapeError(
            f"translate: allowed must let a token follow every prefix, got none for row {mask.any(axis=1).argmin()}; "
            f"EOS is {EOS}"
        )
    return mask


def top_k(logits: Array, k: int, allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k most probable tokens of each row and their log-probabilities, both (R, k), in the order of their ids.

    Among equally probable tokens, those with lower ids are chosen. Suppressed ids and those not allowed are never
    chosen, but keep their share of probability: sums of these log-probabilities are what the model itself gives an
    output.

    logits: (R, V), on any device; some are overwritten   allowed: boolean, (R, V), or None
    """
    if not isinstance(logits, np.ndarray):
        return _top_k_of_rows(logits, k, allowed)
    ids, log_probs = np.empty((len(logits), k), dtype=np.int64), np.empty((len(logits), k))

    def fill(rows: slice) -> None:
        for start in range(rows.start, rows.stop, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, rows.stop))
            ids[block], log_probs[block] = _top_k_of_rows(logits[block], k, None if allowed is None else allowed[block])

    parallel_for(fill, len(logits), logits.size >= LARGE)
    return ids, log_probs


def _top_k_of_rows(logits: Array, k: int, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """ln P = logit - ln sum exp(logits), in float64 from the sum on.

    One token after the other: finding a maximum, the first of equal ones, is so fast that partitioning is slower
    (benchmarks/notes.md).
    """
    xp = get_array_module(logits)
    largest = logits.max(axis=-1, keepdims=True)  # (R, 1)
    exps = xp.exp(logits - largest)
    total = largest + xp.log(exps.sum(axis=-1, keepdims=True).astype(np.float64))  # (R, 1)
    logits[:, SUPPRESSED_IDS] = -np.inf
    if allowed is not None:
        logits[xp.asarray(~allowed)] = -np.inf
    rows, ids, best = xp.arange(len(logits)), [], []
    for _ in range(k):
        ids.append(logits.argmax(axis=-1))  # (R,)
        best.append(logits[rows, ids[-1]])
        logits[rows, ids[-1]] = -np.inf
    ids, log_probs = xp.stack(ids, axis=1), xp.stack(best, axis=1) - total  # (R, k)
    order = ids.argsort(axis=-1)
    return tuple(to_numpy(xp.take_along_axis(each, order, axis=-1)) for each in (ids, log_probs))
