"""Beam search: the best few beginnings of each sentence are extended together  [sec. 6.1]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from minitransformer.backend import Array, to_numpy
from minitransformer.config import BOS, EOS
from minitransformer.errors import ConfigError
from minitransformer.generation.decoding import SUPPRESSED_IDS, next_tokens, output_limits
from minitransformer.generation.hypothesis import Hypothesis, check_alpha, length_penalty
from minitransformer.models import Transformer
from minitransformer.nn import Cache


def beam_search(
    model: Transformer,
    src_ids: Array,
    *,
    beam_size: int = 4,
    alpha: float = 0.6,
    max_extra: int = 50,
    n_best: int = 1,
    early_stop: bool = True,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each sentence, best score first      [Sutskever et al. 2014, sec. 3.2; Wu et al. 2016]

    Step by step beginnings are extended (see `_extend`) and finished (see `_finish`); a beam of 1 is greedy search.
    Finished hypotheses are ranked by log_prob / lp(Y); of equal scores the one finished first wins.

    src_ids: (B, S), sentences that end in EOS, padded with PAD
    beam_size: hypotheses sought per sentence   n_best: of these returned, 1 to beam_size (fewer where so few exist)
    alpha: exponent of `length_penalty`, 0 to 100   max_extra: tokens, as in `output_limits`, 0 or more
    early_stop: leave a sentence as soon as nothing to come can change its answer (see `_settled`)

    Raises:
        ConfigError: an option is out of its range.
        ShapeError: src_ids is not a (B, S) array of ids in the vocabulary, or longer than learned positions.
    """
    _check(beam_size, alpha, n_best)
    src_ids = to_numpy(src_ids)
    limits = output_limits(model, src_ids, max_extra)  # (B,)
    finished: list[list[Hypothesis]] = [[] if limit else [Hypothesis([], 0.0, 0.0)] for limit in limits]
    beams = Beams.start(np.flatnonzero(limits))
    if len(beams.sentences):
        cache = model.start_cache(model.encode(src_ids[beams.sentences]), int(limits.max()))
    while len(beams.sentences):
        longer = _extend(model, cache, beams, finished, beam_size)
        longer = _finish(longer, limits == cache.length, finished, alpha)
        if early_stop:
            longer = longer.keep(~_can_stop(longer, limits, finished, alpha, n_best))
        if not np.array_equal(longer.parents, np.arange(len(beams.sentences))):
            cache.reorder(longer.parents)
        beams = longer
    return [_ranked(hypotheses)[:n_best] for hypotheses in finished]


def _extend(model: Transformer, cache: Cache, beams: Beams, finished: list[list[Hypothesis]], beam_size: int) -> Beams:
    """One step of the decoder: every beginning extended by every token, of which the most probable stay.

    As many stay as the sentence's beam has places, which are beam_size less one for each hypothesis it has finished.
    So the most probable beginning is never given up for hypotheses that ended too soon. Of equally probable extensions
    that of the better beginning wins, then that by the lower token id. PAD and BOS are never said.
    """
    n_tokens = min(beam_size, model.config.vocab_size - len(SUPPRESSED_IDS))
    ids, log_probs = next_tokens(model, beams.last_ids, cache, n_tokens)  # (R, n)
    places = np.array([beam_size - len(hypotheses) for hypotheses in finished])  # (B,)
    return beams.extended(ids, log_probs, places)


def _finish(beams: Beams, at_limit: np.ndarray, finished: list[list[Hypothesis]], alpha: float) -> Beams:
    """Move to ``finished`` what ended in EOS, and as it is what has reached its sentence's limit; the rest goes on.

    at_limit: (B,), which sentences have reached theirs
    """
    ended = (beams.last_ids == EOS) | at_limit[beams.sentences]
    for sentence, tokens, log_prob in beams.where(ended):
        finished[sentence].append(Hypothesis.from_tokens(tokens.tolist(), float(log_prob), alpha))
    return beams.keep(~ended)


@dataclass(frozen=True)
class Beams:
    """The beginnings of all sentences that go on, those of one sentence together, the most probable first.

    sentences: (R,), place in the batch   tokens: (R, t), BOS first   log_probs: (R,), nats, float64
    parents: (R,), which of the step before each extends
    """

    sentences: np.ndarray
    tokens: np.ndarray
    log_probs: np.ndarray
    parents: np.ndarray

    @classmethod
    def start(cls, sentences: np.ndarray) -> Beams:
        """One beginning for each sentence: BOS."""
        n = len(sentences)
        return cls(sentences, np.full((n, 1), BOS), np.zeros(n), np.arange(n))

    @property
    def last_ids(self) -> np.ndarray:
        return self.tokens[:, -1]

    def extended(self, ids: np.ndarray, log_probs: np.ndarray, places: np.ndarray) -> Beams:
        """The most probable of all beginnings that are one token longer, as many as a sentence's beam has places.

        ids, log_probs: (R, n), tokens that may follow each beginning   places: (B,)
        """
        n = ids.shape[1]
        totals = (self.log_probs[:, None] + log_probs).reshape(-1)  # (R * n,)
        sentences = self.sentences.repeat(n)  # (R * n,), ascending
        # By sentence, then by probability; the sort is stable, so ties stay in the order of beginnings and ids.
        order = np.lexsort((-totals, sentences))  # (R * n,)
        rank = np.arange(len(order)) - np.searchsorted(sentences, sentences)  # (R * n,): 0, 1, 2... in each sentence
        best = order[rank < places[sentences]]  # (R',)
        parents = best // n
        tokens = np.concatenate([self.tokens[parents], ids.reshape(-1, 1)[best]], axis=1)  # (R', t + 1)
        return Beams(sentences[best], tokens, totals[best], parents)

    def keep(self, rows: np.ndarray) -> Beams:
        """Some of the beginnings, by a (R,) mask."""
        return Beams(self.sentences[rows], self.tokens[rows], self.log_probs[rows], self.parents[rows])

    def where(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray, float]]:
        """(sentence, tokens without BOS, log-probability) of some of the beginnings, by a (R,) mask."""
        return zip(self.sentences[rows], self.tokens[rows, 1:], self.log_probs[rows], strict=True)


def _can_stop(
    beams: Beams, limits: np.ndarray, finished: list[list[Hypothesis]], alpha: float, n_best: int
) -> np.ndarray:
    """Which beginnings, (R,), belong to a sentence whose n_best hypotheses are known.

    What follows can only lower a log-probability, which is at most 0, and the longest output divides it by most. So
    no output to come scores above log_prob / lp(limit) of the most probable beginning; and of equal scores the one
    finished first wins. When n_best finished hypotheses score at least that much, nothing can push one of them out.
    """
    settled = np.zeros(len(limits), dtype=bool)  # (B,)
    for sentence, row in zip(*np.unique(beams.sentences, return_index=True), strict=True):
        if len(finished[sentence]) >= n_best:
            reachable = beams.log_probs[row] / length_penalty(int(limits[sentence]), alpha)
            settled[sentence] = _ranked(finished[sentence])[n_best - 1].score >= reachable
    return settled[beams.sentences]


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best score first; of equal scores the one finished first, since sorting keeps their order."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def _check(beam_size: int, alpha: float, n_best: int) -> None:
    if beam_size < 1:
        raise ConfigError(f"beam_search: beam_size must be at least 1, got {beam_size}")
    check_alpha(alpha)
    if not 1 <= n_best <= beam_size:
        raise ConfigError(f"beam_search: n_best must be from 1 to beam_size = {beam_size}, got {n_best}")
