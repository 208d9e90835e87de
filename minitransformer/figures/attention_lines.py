"""Attention as lines between two columns of subwords, one color for each head  [Figures 3-5]."""

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.figures.attention_map import CELL, LETTER, check_attention
from minitransformer.figures.canvas import drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST = 0.02
"""Smaller weights, whose lines no one could see, are left out."""
WIDEST = 3.5
"""Width of the line of a weight of 1, in points."""
SPREAD = 0.5
"""Part of a row over which the lines of its heads are spread, so that they do not hide each other."""
LEGEND_COLUMNS, LEGEND_ROW = 4, 0.16
"""Heads side by side in the legend, and the height of a row in inches."""
GAP = 2.6
"""Distance between the two columns in inches."""


def head_colors(n_heads: int) -> list[str]:
    """``#rrggbb`` for each head: adjacent heads are a golden-ratio fraction of the hue circle apart."""
    colors = []
    for head in range(n_heads):
        rgb = np.array(colorsys.hls_to_rgb((0.58 + 0.618034 * head) % 1, 0.42, 0.75))
        too_dark = max(0.0, 0.25 - rgb @ (0.21, 0.72, 0.07))  # blue, which would be lost on a dark page
        colors.append("#" + "".join(f"{round(255 * part):02x}" for part in rgb + too_dark * (1 - rgb)))
    return colors


def draw_attention_lines(
    weights: np.ndarray,
    key_subwords: Sequence[str],
    query_subwords: Sequence[str],
    *,
    title: str = "",
    key_label: str = "source subword",
    query_label: str = "target subword, as it is generated",
    heads: Sequence[int] | None = None,
) -> "Figure":
    """As `draw_attention`, with queries on the left and keys on the right. The width of a line is the weight, its
    color the head."""
    heads = check_attention(weights, key_subwords, query_subwords, heads)
    n_queries, n_keys = len(query_subwords), len(key_subwords)
    letters = max(map(len, query_subwords)) + max(map(len, key_subwords))
    legend = LEGEND_ROW * len(heads) / LEGEND_COLUMNS
    figure = new_figure(GAP + LETTER * letters + 0.8, CELL * max(n_queries, n_keys) + 1.2 + legend)
    with drawing_style({"font.size": 7}):
        axes = figure.subplots()
        axes.set(xlim=(0, 1), ylim=(max(n_queries, n_keys) - 0.5, -1.5))
        axes.axis("off")
        _add_column(axes, 0, query_label, query_subwords)
        _add_column(axes, 1, key_label, key_subwords)
        _add_lines(axes, weights, heads)
        figure.suptitle(title, fontsize=10, parse_math=False)
        figure.legend(loc="outside lower center", ncols=LEGEND_COLUMNS, frameon=False)
    return figure


def _add_column(axes: "Axes", x: int, label: str, subwords: Sequence[str]) -> None:
    """The subwords beside the ends of the lines, to the left of x = 0 or to the right of x = 1, below their label."""
    axes.text(x, -1, label, ha="center", va="center", fontsize=8, color="#555555")
    style = {"textcoords": "offset points", "ha": "left" if x else "right", "va": "center", "parse_math": False}
    for row, subword in enumerate(subwords):
        axes.annotate(subword, (x, row), (8 * x - 4, 0), **style)


def _add_lines(axes: "Axes", weights: np.ndarray, heads: Sequence[int]) -> None:
    """One LineCollection for each head."""
    from matplotlib.collections import LineCollection

    colors = head_colors(len(weights))
    for slot, head in enumerate(heads):
        shift = SPREAD * ((slot + 0.5) / len(heads) - 0.5)
        shown = weights[head - 1]  # (Tq, Tk)
        pairs = np.argwhere(shown >= SMALLEST)
        segments = [[(0, query + shift), (1, key + shift)] for query, key in pairs]
        style = {"color": colors[head - 1], "alpha": 0.7}
        axes.add_collection(LineCollection(segments, linewidths=WIDEST * shown[tuple(pairs.T)], **style))
        axes.plot([], [], linewidth=WIDEST, label=f"head {head}", **style)  # for the legend
