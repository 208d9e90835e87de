"""Attention maps: for every word piece of the output, where the model looks  [Figures 3-5]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.errors import DataError
from minitransformer.figures.canvas import known_fonts, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 0.2
"""Side of one cell, inches: room for one label of 7 points."""
LETTER = 0.065
"""Width of a letter of 7 points, inches."""
SMALLEST_PANEL = 1.6
"""Longer side of a panel, inches, at least."""
MOST_COLUMNS = 4
SMALLEST_FIGURE = 3.2
"""Inches, either way: room for the names of the axes, however short the sentences are."""


def draw_attention(
    weights: np.ndarray,
    key_pieces: Sequence[str],
    query_pieces: Sequence[str],
    *,
    title: str = "",
    key_label: str = "source word piece",
    query_label: str = "target word piece, as it is produced",
    heads: Sequence[int] | None = None,
) -> Figure:
    """One panel per head; rows are queries, columns are keys, darkness is the weight (each row sums to 1).

    weights: (H, Tq, Tk)   key_pieces: Tk labels   query_pieces: Tq labels
    heads: which heads to draw, counted from 1; None: all

    Raises:
        DataError: the labels do not fit the weights, or there is no such head.
        MissingPackageError: matplotlib is not installed.
    """
    heads = list(range(1, len(weights) + 1)) if heads is None else list(heads)
    _check(weights, key_pieces, query_pieces, heads)
    columns = _columns(len(heads))
    rows = math.ceil(len(heads) / columns)
    figure = new_figure(*_size(rows, columns, key_pieces, query_pieces))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    import matplotlib

    with matplotlib.rc_context({"font.family": known_fonts(), "axes.titlesize": 9}):
        for panel in panels.flat[len(heads) :]:
            panel.set_visible(False)
        for panel, head in zip(panels.flat, heads, strict=False):
            image = _draw_head(panel, weights[head - 1], f"head {head}" if len(weights) > 1 else "")
        _name_pieces(panels, len(heads), key_pieces, query_pieces)
        figure.supxlabel(key_label, fontsize=9)
        figure.supylabel(query_label, fontsize=9)
        figure.suptitle(title, fontsize=10, parse_math=False)
        bar = figure.colorbar(image, ax=panels, fraction=0.05, pad=0.02, aspect=30)
        bar.set_label("attention weight", fontsize=9)
        bar.ax.tick_params(labelsize=7)
    return figure


def _check(weights: np.ndarray, key_pieces: Sequence[str], query_pieces: Sequence[str], heads: Sequence[int]) -> None:
    if weights.ndim != 3 or weights.shape[1:] != (len(query_pieces), len(key_pieces)):
        raise DataError(
            f"plot attention: weights must have the shape (heads, {len(query_pieces)}, {len(key_pieces)}), "
            f"got {weights.shape}"
        )
    for head in heads:
        if not 1 <= head <= len(weights):
            raise DataError(f"plot attention: head must be from 1 to {len(weights)}, got {head}")


def _columns(n_heads: int) -> int:
    """Panels side by side: at most MOST_COLUMNS, and rows that are full where that is possible."""
    full = [columns for columns in range(2, MOST_COLUMNS + 1) if n_heads % columns == 0]
    return max(full, default=min(n_heads, MOST_COLUMNS - 1))


def _size(rows: int, columns: int, key_pieces: Sequence[str], query_pieces: Sequence[str]) -> tuple[float, float]:
    """Width and height (inches) so that cells keep their size whatever the number and the length of the labels."""
    cell = max(CELL, SMALLEST_PANEL / max(len(key_pieces), len(query_pieces)))
    width = columns * (cell * len(key_pieces) + 0.1) + LETTER * max(map(len, query_pieces)) + 1.2
    height = rows * (cell * len(query_pieces) + 0.3) + LETTER * max(map(len, key_pieces)) + 0.8
    return max(width, SMALLEST_FIGURE), max(height, SMALLEST_FIGURE)


def _draw_head(panel: Axes, weights: np.ndarray, name: str):
    panel.set_title(name)
    panel.tick_params(labelsize=7, length=2)
    return panel.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")


def _name_pieces(panels: np.ndarray, n_shown: int, key_pieces: Sequence[str], query_pieces: Sequence[str]) -> None:
    """Queries at the left of each row, keys below the lowest panel of each column."""
    rows, columns = panels.shape
    for panel in panels[:, 0]:
        _label(panel.set_yticks, query_pieces, 0)
    for column in range(columns):
        in_last_row = (rows - 1) * columns + column < n_shown
        lowest = panels[rows - 1 if in_last_row else rows - 2, column]
        lowest.tick_params(labelbottom=True)
        _label(lowest.set_xticks, key_pieces, 90)


def _label(set_ticks, pieces: Sequence[str], rotation: int) -> None:
    # Without parse_math a "$" in the text would begin a formula.
    set_ticks(range(len(pieces)), list(pieces), rotation=rotation, parse_math=False)
