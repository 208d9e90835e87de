"""Beam search: the most probable partial hypotheses of each sentence are extended step by step  [sec. 6.1]."""

from dataclasses import dataclass

import numpy as np

from minitransformer.backend import Array
from minitransformer.config import EOS
from minitransformer.errors import ConfigError
from minitransformer.generation.decoding import SUPPRESSED_IDS, Allowed, next_tokens, start_search
from minitransformer.generation.hypothesis import Hypothesis, check_alpha, length_penalty
from minitransformer.models import Model
from minitransformer.nn import KeyValueCache


def beam_search(
    model: Model,
    src_ids: Array,
    *,
    beam_size: int = 4,
    alpha: float = 0.6,
    max_extra: int = 50,
    n_best: int = 1,
    early_stop: bool = True,
    allowed: Allowed | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each sentence, best score first      [Sutskever et al. 2014, sec. 3.2; Wu et al. 2016]

    At each step partial hypotheses are extended (see `_extend`) and finished (see `_finish`); a beam of 1 is greedy
    search. Finished hypotheses are ranked by log_prob / lp(Y); among equal scores the one finished first wins.

    src_ids: (B, S), sentences that end in EOS, padded with PAD
    beam_size: hypotheses sought per sentence   n_best: how many to return, 1 to beam_size (fewer if fewer exist)
    alpha: exponent of `length_penalty`, 0 to 100   max_extra: tokens, as in `output_limits`, 0 or more
    early_stop: stop a sentence's search as soon as no further step can change its answer (see `_can_stop`)
    allowed: maps prefixes, (R, t), the tokens generated so far, to a boolean (R, V), True = may come next; at least one

    Raises:
        ConfigError: an option is out of its range.
        ShapeError: src_ids is not a (B, S) array of ids in the vocabulary, or longer than the model's positions, or the
            model's log-probabilities are NaN, or ``allowed`` gives another array or allows nothing.
    """
    _check(beam_size, alpha, n_best)
    limits, sentences, start_ids, cache = start_search(model, src_ids, max_extra, beam_size)
    finished: list[list[Hypothesis]] = [[] if limit else [Hypothesis([], 0.0, 0.0)] for limit in limits]
    beams = Beams.start(sentences, start_ids)
    while len(beams.sentences):
        extended = _extend(model, cache, beams, finished, beam_size, allowed)
        extended = _finish(extended, limits, finished, alpha)
        if early_stop:
            extended = extended.keep(~_can_stop(extended, limits, finished, alpha, n_best))
        if not np.array_equal(extended.parents, np.arange(len(beams.sentences))):
            cache.reorder(extended.parents)
        beams = extended
    return [_rank(hypotheses)[:n_best] for hypotheses in finished]


@dataclass(frozen=True)
class Beams:
    """The partial hypotheses of all unfinished sentences, those of one sentence together, the most probable first.

    sentences: (R,), indices into the batch   tokens: (R, t + 1), the start token first   log_probs: (R,), nats, float64
    parents: (R,), the row of the previous step that each extends
    """

    sentences: np.ndarray
    tokens: np.ndarray
    log_probs: np.ndarray
    parents: np.ndarray

    @classmethod
    def start(cls, sentences: np.ndarray, start_ids: np.ndarray) -> "Beams":
        """One partial hypothesis for each sentence: its start token, both (R,)."""
        n = len(sentences)
        return cls(sentences, start_ids[:, None], np.zeros(n), np.arange(n))

    def extend(self, ids: np.ndarray, log_probs: np.ndarray, free_slots: np.ndarray) -> "Beams":
        """The most probable hypotheses that are one token longer, as many as a sentence's beam has free slots.

        ids, log_probs: (R, k), candidates for the next token of each   free_slots: (B,)
        """
        k = ids.shape[1]
        totals = (self.log_probs[:, None] + log_probs).reshape(-1)  # (R * k,)
        sentences = self.sentences.repeat(k)  # (R * k,), ascending
        # By sentence, then by probability; the sort is stable, so ties stay in the order of rows and ids.
        order = np.lexsort((-totals, sentences))  # (R * k,)
        rank = np.arange(len(order)) - np.searchsorted(sentences, sentences)  # (R * k,): 0, 1, 2... in each sentence
        best = order[rank < free_slots[sentences]]  # (R',)
        parents = best // k
        tokens = np.concatenate([self.tokens[parents], ids.reshape(-1, 1)[best]], axis=1)  # (R', t + 2)
        return Beams(sentences[best], tokens, totals[best], parents)

    def keep(self, rows: np.ndarray) -> "Beams":
        """Some of the partial hypotheses, by a (R,) mask."""
        return Beams(self.sentences[rows], self.tokens[rows], self.log_probs[rows], self.parents[rows])


def _extend(
    model: Model,
    cache: KeyValueCache,
    beams: Beams,
    finished: list[list[Hypothesis]],
    beam_size: int,
    allowed: Allowed | None,
) -> Beams:
    """One decoding step: every partial hypothesis is extended by every token, and the most probable ones are kept.

    A sentence keeps as many as its beam has free slots: beam_size less one for each hypothesis it has finished. So the
    most probable prefix is never given up for hypotheses that ended too soon. Among equally probable extensions, the
    one of the better prefix wins, then the one by the lower token id. PAD and BOS are never generated.
    """
    k = min(beam_size, model.config.vocab_size - len(SUPPRESSED_IDS))
    ids, log_probs = next_tokens(model, beams.tokens, cache, k, allowed)  # (R, k)
    free_slots = np.array([beam_size - len(hypotheses) for hypotheses in finished])  # (B,)
    extended = beams.extend(ids, log_probs, free_slots)
    return extended if allowed is None else extended.keep(extended.log_probs > -np.inf)  # the rest was not allowed


def _finish(beams: Beams, limits: np.ndarray, finished: list[list[Hypothesis]], alpha: float) -> Beams:
    """Move to ``finished`` what ended in EOS and, as it is, what reached its sentence's limit; return the rest.

    limits: (B,), maximum tokens of each sentence's output
    """
    n_generated = beams.tokens.shape[1] - 1
    ended = (beams.tokens[:, -1] == EOS) | (n_generated == limits[beams.sentences])  # (R,)
    done = beams.keep(ended)
    for sentence, tokens, log_prob in zip(done.sentences, done.tokens[:, 1:], done.log_probs, strict=True):
        finished[sentence].append(Hypothesis.from_tokens(tokens.tolist(), float(log_prob), alpha))
    return beams.keep(~ended)


def _can_stop(
    beams: Beams, limits: np.ndarray, finished: list[list[Hypothesis]], alpha: float, n_best: int
) -> np.ndarray:
    """Which partial hypotheses, (R,), belong to a sentence whose n_best hypotheses are known.

    Further tokens can only lower a log-probability, which is at most 0, and the longest output divides it by the most.
    So no later hypothesis scores above log_prob / lp(limit) of the most probable partial hypothesis, and among equal
    scores the one finished first wins. When n_best finished hypotheses score at least that much, no other can displace
    one of them.
    """
    known = np.zeros(len(limits), dtype=bool)  # (B,)
    for sentence, row in zip(*np.unique(beams.sentences, return_index=True), strict=True):
        if len(finished[sentence]) >= n_best:
            bound = beams.log_probs[row] / length_penalty(int(limits[sentence]), alpha)
            known[sentence] = _rank(finished[sentence])[n_best - 1].score >= bound
    return known[beams.sentences]


def _rank(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best score first; among equal scores the one finished first, since sorting keeps their order."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def _check(beam_size: int, alpha: float, n_best: int) -> None:
    if beam_size < 1:
        raise ConfigError(f"beam_search: beam_size must be at least 1, got {beam_size}")
    check_alpha(alpha)
    if not 1 <= n_best <= beam_size:
        raise ConfigError(f"beam_search: n_best must be from 1 to beam_size = {beam_size}, got {n_best}")
