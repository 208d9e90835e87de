"""The two tasks of recurrent.py, reversal and Multi30k: numbers of updates, corpora, and scores by length."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from minitransformer.config import UNK, ModelConfig, TranslationConfig
from minitransformer.evaluation import corpus_bleu
from minitransformer.generation import greedy_search, translate_lines
from minitransformer.models import Model
from minitransformer.planning import parameter_count
from minitransformer.text import Tokenizer, pad_batch, read_lines, read_parallel
from minitransformer.training import Corpus

MULTI30K = Path("data/multi30k")


def updates_of(task: str, model: str, settings: dict) -> int:
    """The number of updates of a training that takes as long as the other models' trainings."""
    return settings["updates"][task][list(settings["models"]).index(model)]


def of_size(wanted: int, largest: int, model_of: Callable[[int], ModelConfig]) -> ModelConfig:
    """The model whose number of parameters is nearest to ``wanted``, of those with even widths up to ``largest``."""
    return min(map(model_of, range(4, largest, 2)), key=lambda config: abs(parameter_count(config) - wanted))


def reversed_pairs(lengths: np.ndarray, rng: np.random.Generator, symbols: int) -> tuple[list, list]:
    """Sequences of random symbols of these lengths, and the same sequences reversed."""
    sequences = [rng.integers(UNK + 1, UNK + 1 + symbols, length).tolist() for length in lengths]
    return sequences, [sequence[::-1] for sequence in sequences]


@cache
def multi30k_tokenizer(vocab_size: int, folder: Path = MULTI30K) -> Tokenizer:
    lines = read_lines(folder / "train.en") + read_lines(folder / "train.de")
    return Tokenizer.train(lines, vocab_size=vocab_size)


def corpus_of(task: str, seed: int, settings: dict) -> Corpus:
    if task == "reverse":
        rng = np.random.default_rng((seed, 0))
        lengths = rng.integers(settings["lengths"][0], settings["lengths"][-1] + 1, settings["sequences"] + 500)
        src, tgt = reversed_pairs(lengths, rng, settings["symbols"])
        return Corpus((src[500:], tgt[500:]), (src[:500], tgt[:500]))
    train, valid = (read_parallel(MULTI30K / f"{part}.en", MULTI30K / f"{part}.de") for part in ("train", "val"))
    return Corpus.from_lines(multi30k_tokenizer(settings["vocab_size"]), train, valid)


def scores_of(task: str, model: Model, settings: dict) -> dict:
    return reverse_scores(model, settings) if task == "reverse" else translation_scores(model, settings)


def reverse_scores(model: Model, settings: dict) -> dict:
    """BLEU of the symbols, and the share of sequences that are reversed without error, for each length."""
    rng, bleu, exact = np.random.default_rng(0), [], []  # the same test for all
    for length in settings["lengths"]:
        sources, targets = reversed_pairs(np.full(settings["of_each_length"], length), rng, settings["symbols"])
        answers = [list(each.ids) for each in greedy_search(model, pad_batch(sources, targets).src)]
        exact.append(float(np.mean([answer == target for answer, target in zip(answers, targets, strict=True)])))
        texts = ([" ".join(map(str, ids)) for ids in side] for side in (answers, targets))
        bleu.append(corpus_bleu(*texts).score)
    return {"bleu": bleu, "exact": exact}


def translation_scores(model: Model, settings: dict) -> dict:
    """BLEU of the scored text, for each group of source lengths and for all together.

    The validation set is scored: recipes are changed after reading the page, so that a test set would choose them.
    """
    sources, references = (
        [line for part in settings["scored"] for line in read_lines(MULTI30K / f"{part}.{side}")]
        for side in ("en", "de")
    )
    outputs = translate_lines(model, multi30k_tokenizer(settings["vocab_size"]), sources, TranslationConfig())
    groups = np.searchsorted(settings["words"], [len(line.split()) for line in sources])
    scores = []
    for group in range(len(settings["words"])):
        chosen = np.flatnonzero(groups == group)
        scores.append(corpus_bleu([outputs[i] for i in chosen], [references[i] for i in chosen]).score)
    return {"bleu": scores, "bleu_of_all": corpus_bleu(outputs, references).score}
