"""Plots of a run or a model as matplotlib Figures, which the caller shows or saves."""

from minitransformer.figures.attention_map import draw_attention
from minitransformer.figures.canvas import png_bytes
from minitransformer.figures.curves import draw_learning_curves
from minitransformer.figures.times import draw_times

__all__ = ["draw_attention", "draw_learning_curves", "draw_times", "png_bytes"]
