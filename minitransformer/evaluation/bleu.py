"""BLEU and chrF as sacreBLEU computes them, with signatures; and BLEU as it was computed for the paper."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from minitransformer.errors import DataError, MissingPackageError, require
from minitransformer.text.corpus import check_lines


@dataclass(frozen=True)
class Score:
    """score: from 0 to 100   signature: tokenizer, smoothing, version of sacreBLEU; print it beside the score."""

    score: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """BLEU of a whole corpus with one reference per sentence      [Papineni et al. 2002; Post 2018]

    Both are plain, detokenized text: sacreBLEU tokenizes it itself, and case matters.

    tokenize: one of `config.TOKENIZERS`; for Chinese, Japanese and Korean sacreBLEU's authors want the language's own

    Raises:
        DataError: no lines, or not as many references as hypotheses.
        MissingPackageError: sacrebleu, or what its tokenizer needs, is not installed.
    """
    return _score(bleu_metric(tokenize), hypotheses, references)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2: F-score of character 1- to 6-grams, recall counting twice, of a whole corpus      [Popovic 2015, 2016]

    It needs no tokenizer, so it is the fairer score for languages with rich morphology or without spaces.

    Raises:
        DataError: as `corpus_bleu`.
        MissingPackageError: sacrebleu is not installed.
    """
    return _score(require_sacrebleu().CHRF(), hypotheses, references)


def paired_bootstrap(
    hypotheses: Sequence[str], others: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> dict[str, dict[str, float]]:
    """Whether one system beats another on the same test set, from 1,000 samples of its sentences      [Koehn 2004]

    Returns, for ``bleu`` and ``chrf``, ``score`` and ``other`` (the scores of the two) and ``p``: how likely a
    difference this large is if the systems do not differ.

    Raises:
        DataError, MissingPackageError: as `corpus_bleu`.
    """
    _check_lines(hypotheses, references)
    _check_lines(others, references)
    metrics = {"bleu": bleu_metric(tokenize), "chrf": require_sacrebleu().CHRF()}
    test = require("sacrebleu.significance", "bleu", "eval").PairedTest(
        [("other", list(others)), ("this", list(hypotheses))], metrics, [list(references)], test_type="bs"
    )
    rows = [row for name, row in test()[1].items() if name != "System"]
    return {  # sacreBLEU gives p = 0.001 to a system against itself
        name: {"score": this.score, "other": other.score, "p": this.p_value if this.score != other.score else 1.0}
        for name, (other, this) in zip(metrics, rows, strict=True)
    }


def bleu_metric(tokenize: str) -> Any:
    """sacreBLEU's BLEU with one of its tokenizers; MissingPackageError if what that needs is not installed."""
    try:
        return require_sacrebleu().BLEU(tokenize=tokenize)
    except RuntimeError as error:
        extra = tokenize.removesuffix("-mecab")
        raise MissingPackageError(
            f'bleu: the tokenizer {tokenize} must be installed; run pip install "sacrebleu[{extra}]"'
        ) from error


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU as in the paper's Table 2: tokenized by Moses, German compounds split      [tensor2tensor, get_ende_bleu.sh]

    It counts different words than `corpus_bleu` and is about half a point higher. Both sides are plain, detokenized
    text. Quotes stay as they are, as in the script's first version; its last version first replaces the Unicode
    punctuation of the hypotheses. `normalize_punctuation` of both sides makes „ and " equal.

    language: of both, as Moses calls it (de, fr, en, ...)

    Raises:
        DataError: as `corpus_bleu`.
        MissingPackageError: sacrebleu or sacremoses is not installed.
    """
    metric = require_sacrebleu().BLEU(tokenize="none", force=True)
    tokenized = [
        [moses_tokens(line, language) for line in check_lines(lines, "bleu")] for lines in (hypotheses, references)
    ]
    result = _score(metric, *tokenized)
    how = f"moses.{language}" + (".compounds" if language == "de" else "")
    return Score(result.score, result.signature.replace("tok:none", f"tok:{how}"))


def moses_tokens(line: str, language: str) -> str:
    r"""The line with spaces between its tokens; in German "x-y" becomes x, ##AT##-##AT## and y.

    ``s/(\S)-(\S)/$1 ##AT##-##AT## $2/g`` of the script; as there, only the first
    hyphen of a-b-c is found, because its parts are single letters.
    """
    tokens = _moses_tokenizer(language).tokenize(line, return_str=True)
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens) if language == "de" else tokens


@cache
def _moses_tokenizer(language: str) -> Any:
    return require_moses().MosesTokenizer(language)


def _score(metric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    _check_lines(hypotheses, references)
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(score, str(metric.get_signature()))


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    for lines in (hypotheses, references):
        check_lines(lines, "bleu")
    if len(hypotheses) != len(references) or not hypotheses:
        raise DataError(
            f"bleu: there must be one reference for each hypothesis, at least one, "
            f"got {len(hypotheses)} hypotheses and {len(references)} references"
        )


def require_moses() -> ModuleType:
    """The module ``sacremoses``; MissingPackageError if it is not installed."""
    return require("sacremoses", "bleu", "eval")


def require_sacrebleu() -> ModuleType:
    """The module ``sacrebleu.metrics``; MissingPackageError if it is not installed.

    Commands call it before the long work that ends in a score, not after it.
    """
    return require("sacrebleu.metrics", "bleu", "eval")
