"""Translation: greedy and beam search over a trained model, from lines to lines, and BLEU."""

from minitransformer.translation.beam import beam_search
from minitransformer.translation.bleu import BleuResult, corpus_bleu, paper_bleu, require_moses, require_sacrebleu
from minitransformer.translation.greedy import greedy_search
from minitransformer.translation.hypothesis import Hypothesis, length_penalty
from minitransformer.translation.translate import hypothesis_attention, search_lines, translate_lines

__all__ = [
    "BleuResult",
    "Hypothesis",
    "beam_search",
    "corpus_bleu",
    "greedy_search",
    "hypothesis_attention",
    "length_penalty",
    "paper_bleu",
    "require_moses",
    "require_sacrebleu",
    "search_lines",
    "translate_lines",
]
