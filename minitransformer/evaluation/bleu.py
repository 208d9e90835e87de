"""BLEU as others compute it: sacreBLEU, with the signature that says how; and as the paper's figures were computed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from minitransformer.errors import DataError, MissingPackageError, install_hint


@dataclass(frozen=True)
class BleuResult:
    """score: from 0 to 100   signature: tokenizer, smoothing, version of sacreBLEU; print it beside the score."""

    score: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    """BLEU of a whole corpus with one reference per sentence      [Papineni et al. 2002; Post 2018]

    Both are plain text, as translated: sacreBLEU cuts it into words itself (tokenizer 13a) and minds case.

    Raises:
        DataError: no lines, or not as many references as hypotheses.
        MissingPackageError: sacrebleu is not installed.
    """
    return _scored(require_sacrebleu().BLEU(), hypotheses, references)


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> BleuResult:
    """BLEU as the paper's Table 2 has it: words cut by Moses, German compounds split [tensor2tensor, get_ende_bleu.sh]

    It counts other words than `corpus_bleu` and is about half a point above it. Both are plain text, as translated.

    language: of both, as Moses calls it (de, fr, en, ...)

    Raises:
        DataError: as `corpus_bleu`.
        MissingPackageError: sacrebleu or sacremoses is not installed.
    """
    metric = require_sacrebleu().BLEU(tokenize="none", force=True)
    cut = [[moses_words(line, language) for line in lines] for lines in (hypotheses, references)]
    result = _scored(metric, *cut)
    how = f"moses.{language}" + (".compounds" if language == "de" else "")
    return BleuResult(result.score, result.signature.replace("tok:none", f"tok:{how}"))


def moses_words(line: str, language: str) -> str:
    r"""The line with spaces between its words; in German "x-y" is then x, ##AT##-##AT## and y.

    ``s/(\S)-(\S)/$1 ##AT##-##AT## $2/g`` of the script: as there, of a-b-c with its
    single letters only the first hyphen is found.
    """
    words = _moses_tokenizer(language).tokenize(line, return_str=True)
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", words) if language == "de" else words


@cache
def _moses_tokenizer(language: str) -> Any:
    return require_moses().MosesTokenizer(language)


def _scored(metric, hypotheses: Sequence[str], references: Sequence[str]) -> BleuResult:
    if len(hypotheses) != len(references) or not hypotheses:
        raise DataError(
            f"bleu: there must be one reference for each hypothesis, at least one, "
            f"got {len(hypotheses)} hypotheses and {len(references)} references"
        )
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return BleuResult(score, str(metric.get_signature()))


def require_moses() -> ModuleType:
    """The module ``sacremoses``.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        import sacremoses
    except ImportError as error:
        raise MissingPackageError(f"bleu: sacremoses must be installed; {install_hint('eval')}") from error
    return sacremoses


def require_sacrebleu() -> ModuleType:
    """The module ``sacrebleu.metrics``. Asked for before long work that ends in a score, not after it.

    Raises:
        MissingPackageError: sacrebleu is not installed.
    """
    try:
        import sacrebleu.metrics
    except ImportError as error:
        raise MissingPackageError(f"bleu: sacrebleu must be installed; {install_hint('eval')}") from error
    return sacrebleu.metrics
