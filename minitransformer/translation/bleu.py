"""BLEU as others compute it: sacreBLEU, with the signature that says how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

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
    if len(hypotheses) != len(references) or not hypotheses:
        raise DataError(
            f"bleu: there must be one reference for each hypothesis, at least one, "
            f"got {len(hypotheses)} hypotheses and {len(references)} references"
        )
    metric = require_sacrebleu().BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return BleuResult(score, str(metric.get_signature()))


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
