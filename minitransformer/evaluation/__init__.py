"""How good translations and parses are: BLEU, and labelled bracket F1."""

from minitransformer.evaluation.bleu import BleuResult, corpus_bleu, paper_bleu, require_moses, require_sacrebleu
from minitransformer.evaluation.bracketing import (
    COLLINS,
    BracketRules,
    BracketScore,
    bracket_score,
    corpus_bracket_score,
)

__all__ = [
    "COLLINS",
    "BleuResult",
    "BracketRules",
    "BracketScore",
    "bracket_score",
    "corpus_bleu",
    "corpus_bracket_score",
    "paper_bleu",
    "require_moses",
    "require_sacrebleu",
]
