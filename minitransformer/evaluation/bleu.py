"""BLEU as sacreBLEU computes it, with its signature; and as the paper's figures were computed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from minitransformer.errors import DataError, require


@dataclass(frozen=True)
class BleuResult:
    """score: from 0 to 100   signature: tokenizer, smoothing, version of sacreBLEU; print it beside the score."""

    score: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    """BLEU of a whole corpus with one reference per sentence      [Papineni et al. 2002; Post 2018]

    Both are plain, detokenized text: sacreBLEU tokenizes it itself (tokenizer 13a), and case matters.

    Raises:
        DataError: no lines, or not as many references as hypotheses.
        MissingPackageError: sacrebleu is not installed.
    """
    return _score(require_sacrebleu().BLEU(), hypotheses, references)


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> BleuResult:
    """BLEU as in the paper's Table 2: tokenized by Moses, German compounds split      [tensor2tensor, get_ende_bleu.sh]

    It counts other words than `corpus_bleu` and is about half a point above it. Both are plain, detokenized text.

    language: of both, as Moses calls it (de, fr, en, ...)

    Raises:
        DataError: as `corpus_bleu`.
        MissingPackageError: sacrebleu or sacremoses is not installed.
    """
    metric = require_sacrebleu().BLEU(tokenize="none", force=True)
    tokenized = [[moses_tokens(line, language) for line in lines] for lines in (hypotheses, references)]
    result = _score(metric, *tokenized)
    how = f"moses.{language}" + (".compounds" if language == "de" else "")
    return BleuResult(result.score, result.signature.replace("tok:none", f"tok:{how}"))


def moses_tokens(line: str, language: str) -> str:
    r"""The line with spaces between its tokens; in German "x-y" is then x, ##AT##-##AT## and y.

    ``s/(\S)-(\S)/$1 ##AT##-##AT## $2/g`` of the script; as there, only the first
    hyphen of a-b-c is found, because its parts are single letters.
    """
    tokens = _moses_tokenizer(language).tokenize(line, return_str=True)
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens) if language == "de" else tokens


@cache
def _moses_tokenizer(language: str) -> Any:
    return require_moses().MosesTokenizer(language)


def _score(metric, hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    if len(hypotheses) != len(references) or not hypotheses:
        raise DataError(
            f"bleu: there must be one reference for each hypothesis, at least one, "
            f"got {len(hypotheses)} hypotheses and {len(references)} references"
        )
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return BleuResult(score, str(metric.get_signature()))


def require_moses() -> ModuleType:
    """The module ``sacremoses``; MissingPackageError if it is not installed."""
    return require("sacremoses", "bleu", "eval")


def require_sacrebleu() -> ModuleType:
    """The module ``sacrebleu.metrics``; MissingPackageError if it is not installed.

    Commands call it before the long work that ends in a score, not after it.
    """
    return require("sacrebleu.metrics", "bleu", "eval")
