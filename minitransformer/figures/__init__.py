"""Plots of a run or a model as matplotlib Figures, which the caller shows or saves, and attention as an HTML page."""

from minitransformer.figures.attention_lines import draw_attention_lines
from minitransformer.figures.attention_map import draw_attention
from minitransformer.figures.attention_page import Attentions, attention_page
from minitransformer.figures.canvas import picture_bytes
from minitransformer.figures.curves import draw_learning_curves

__all__ = [
    "Attentions",
    "attention_page",
    "draw_attention",
    "draw_attention_lines",
    "draw_learning_curves",
    "picture_bytes",
]
