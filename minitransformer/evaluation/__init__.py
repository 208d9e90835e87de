"""How good translations are: BLEU."""

from minitransformer.evaluation.bleu import BleuResult, corpus_bleu, paper_bleu, require_moses, require_sacrebleu

__all__ = ["BleuResult", "corpus_bleu", "paper_bleu", "require_moses", "require_sacrebleu"]
