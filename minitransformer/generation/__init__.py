"""Generation: greedy and beam search with a trained model, from lines to lines."""

from minitransformer.generation.beam import beam_search
from minitransformer.generation.greedy import greedy_search
from minitransformer.generation.hypothesis import Hypothesis, length_penalty
from minitransformer.generation.sampling import sample
from minitransformer.generation.translate import (
    hypothesis_attention,
    hypothesis_text,
    search_blocks,
    search_lines,
    translate_lines,
)

__all__ = [
    "Hypothesis",
    "beam_search",
    "greedy_search",
    "hypothesis_attention",
    "hypothesis_text",
    "length_penalty",
    "sample",
    "search_blocks",
    "search_lines",
    "translate_lines",
]
