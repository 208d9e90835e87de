"""For tests of search: models to search in, the same without a cache, and a search through all outputs."""

from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace

import numpy as np
from small_models import random_sentence, small_model

from minitransformer.batch import pad_rows
from minitransformer.config import BOS, EOS, PAD
from minitransformer.generation import Hypothesis, beam_search, greedy_search
from minitransformer.models import Transformer

V = 6  # two words, UNK and EOS can be generated
SEEDS = range(6)


def sharp_model(seed: int, **changes) -> Transformer:
    """A random model that is often sure of itself: an untrained one finds all tokens about equally probable."""
    rng = np.random.default_rng(seed)
    model = small_model(rng, **{"vocab_size": V, "n_layers": 1} | changes)
    model.parameters.data *= rng.uniform(1.0, 2.0)
    return model


def random_sources(seed: int, lengths=(1, 4, 2), vocab_size: int = V) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return pad_rows([[*random_sentence(rng, n, vocab_size), EOS] for n in lengths])


class UncachedModel:
    """A Transformer that keeps nothing between steps: each computes its whole output so far again."""

    is_decoder_only = False

    def __init__(self, model: Transformer):
        self.model, self.config, self.max_positions = model, model.config, model.max_positions
        self.steps: list[int] = []  # rows of each step

    def start(self, src_ids, max_length):
        n = len(src_ids)
        cache = SimpleNamespace(src=src_ids, tgt=np.empty((n, 0), int), start_ids=np.full(n, BOS))

        def reorder(rows):
            cache.src, cache.tgt = cache.src[rows], cache.tgt[rows]

        cache.reorder = reorder
        return cache

    def decode_step(self, last_ids, cache):
        self.steps.append(len(last_ids))
        cache.tgt = np.concatenate([cache.tgt, last_ids[:, None]], axis=1)
        return self.model(cache.src, cache.tgt).data[:, -1]


class ChainModel(UncachedModel):
    """A model whose next token depends on the last one alone, by a table of log-probabilities (V, V)."""

    def __init__(self, table: np.ndarray):
        self.config, self.max_positions, self.table = SimpleNamespace(vocab_size=len(table)), None, table
        self.steps = []

    def decode_step(self, last_ids, cache):
        self.steps.append(len(last_ids))
        return self.table[last_ids]


def outputs_log_probs(model: Transformer, source: np.ndarray, outputs: list[list[int]]) -> list[float]:
    """ln P(Y | X) of each output (EOS written out where it has one), by whole runs of the model."""
    tgt_in = pad_rows([[BOS, *output[:-1]] for output in outputs])
    logits = model(np.tile(source, (len(outputs), 1)), tgt_in).data
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return [
        float(sum(row[t, token] for t, token in enumerate(ids))) for row, ids in zip(log_probs, outputs, strict=True)
    ]


def every_output(limit: int) -> list[list[int]]:
    """All outputs of at most ``limit`` tokens: shorter ones end in EOS, those at the limit may be cut off."""
    words = [token for token in range(V) if token not in (PAD, BOS, EOS)]
    ended = [[*ids, EOS] for n in range(limit) for ids in product(words, repeat=n)]
    return ended + [list(ids) for ids in product(words, repeat=limit)]


def exhaustive_search(model: Transformer, source: np.ndarray, limit: int, alpha: float) -> list[Hypothesis]:
    outputs = every_output(limit)
    return ranked(zip(outputs, outputs_log_probs(model, source, outputs), strict=True), alpha)


def ranked(outputs: Iterable[tuple[list[int], float]], alpha: float) -> list[Hypothesis]:
    """Outputs, EOS included, with their log-probabilities, as hypotheses, best score first."""
    found = [
        Hypothesis([token for token in output if token != EOS], log_prob, log_prob / ((5 + len(output)) / 6) ** alpha)
        for output, log_prob in outputs
    ]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def slow_beam_search(model, source: np.ndarray, beam_size: int, alpha: float, limit: int) -> list[Hypothesis]:
    """All finished hypotheses of one sentence, best first, by lists and whole runs of the model alone."""
    beam, finished = [([], 0.0)], []
    for length in range(1, limit + 1):
        extended = []
        for tokens, log_prob in beam:
            logits = model(source[None], np.array([[BOS, *tokens]])).data[0, -1]
            log_probs = logits - np.log(np.exp(logits).sum())
            extended += [([*tokens, y], log_prob + log_probs[y]) for y in range(len(logits)) if y not in (PAD, BOS)]
        extended = sorted(extended, key=lambda each: -each[1])[: beam_size - len(finished)]
        done = [length == limit or tokens[-1] == EOS for tokens, _ in extended]
        finished += [each for each, over in zip(extended, done, strict=True) if over]
        beam = [each for each, over in zip(extended, done, strict=True) if not over]
    return ranked(finished, alpha)


def source_length(source: np.ndarray) -> int:
    return int(np.count_nonzero((source != PAD) & (source != EOS)))


def assert_same(found, expected):
    """The same hypotheses in the same order; numbers up to rounding."""
    assert [h.ids for h in found] == [h.ids for h in expected]
    np.testing.assert_allclose([h.score for h in found], [h.score for h in expected], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose([h.log_prob for h in found], [h.log_prob for h in expected], rtol=1e-9, atol=1e-12)


def both_searches(model, src: np.ndarray, **options) -> list[list[Hypothesis]]:
    """What beam search finds for each sentence, then what greedy search finds for each."""
    beams = beam_search(model, src, beam_size=3, n_best=2, **options)
    return beams + [[hypothesis] for hypothesis in greedy_search(model, src, **options)]
