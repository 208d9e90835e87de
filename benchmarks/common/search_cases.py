"""The models and sources that decoding is measured with; this file needs no peer."""

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from minitransformer.config import EOS, UNK, ModelConfig
from minitransformer.generation import Hypothesis, beam_search, greedy_search
from minitransformer.models import Transformer

SOURCE_TOKENS = 24


@dataclass(frozen=True)
class Case:
    """How many sentences are translated, into how many tokens each, with which beam size (1: greedy)."""

    sentences: int
    new_tokens: int
    beam_size: int

    @property
    def search(self) -> str:
        return "greedy" if self.beam_size == 1 else f"beam {self.beam_size}"


def random_model(config: ModelConfig, xp: ModuleType = np) -> Transformer:
    """Random weights; the output never ends by itself."""
    model = Transformer(config, seed=1, xp=xp)
    model.embedding.data[: EOS + 1] = 0.0  # of PAD, BOS and EOS
    return model


def random_sources(
    rng: np.random.Generator, vocab_size: int, sentences: int, tokens: int = SOURCE_TOKENS
) -> np.ndarray:
    """(sentences, tokens + 1), EOS last"""
    words = rng.integers(UNK + 1, vocab_size, (sentences, tokens))
    return np.concatenate([words, np.full((sentences, 1), EOS)], axis=1)


def search(model: Transformer, src: np.ndarray, case: Case) -> list[Hypothesis]:
    """The best hypothesis of each sentence; scores are not divided by a length."""
    options = {"max_extra": case.new_tokens - SOURCE_TOKENS, "alpha": 0.0}
    if case.beam_size == 1:
        return greedy_search(model, src, **options)
    return [best for (best,) in beam_search(model, src, beam_size=case.beam_size, **options)]
