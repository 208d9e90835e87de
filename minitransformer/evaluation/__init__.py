"""How good translations are: BLEU and chrF."""

from minitransformer.evaluation.bleu import (
    Score,
    bleu_metric,
    corpus_bleu,
    corpus_chrf,
    paired_bootstrap,
    paper_bleu,
    require_moses,
    require_sacrebleu,
)

__all__ = [
    "Score",
    "bleu_metric",
    "corpus_bleu",
    "corpus_chrf",
    "paired_bootstrap",
    "paper_bleu",
    "require_moses",
    "require_sacrebleu",
]
