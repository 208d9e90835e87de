"""Attention maps: what each subword of the output attends to  [Figures 3-5]."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.errors import DataError
from minitransformer.figures.canvas import drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

CELL = 0.2
"""Side of a cell in inches: space for one label of 7 points."""
LETTER = 0.065
"""Width of a character of 7 points in inches."""
SMALLEST_PANEL = 1.6
"""Minimum length of the longer side of a panel in inches."""
MAX_COLUMNS = 4
MAX_HEADS = 64
SMALLEST_FIGURE = 3.2
"""Minimum width and height in inches: space for the axis labels even if the sentences are short."""


def draw_attention(
    weights: np.ndarray,
    key_subwords: Sequence[str],
    query_subwords: Sequence[str],
    *,
    title: str = "",
    key_label: str = "source subword",
    query_label: str = "target subword, as it is generated",
    heads: Sequence[int] | None = None,
) -> "Figure":
    """One panel per head; rows are queries, columns are keys, and darker cells have larger weights (rows sum to 1).

    weights: (H, Tq, Tk)   key_subwords: Tk labels   query_subwords: Tq labels
    heads: heads to draw, counted from 1; None: all

    Raises:
        DataError: the labels do not match the shape of the weights, or a head does not exist.
        MissingPackageError: matplotlib is not installed.
    """
    heads = check_attention(weights, key_subwords, query_subwords, heads)
    columns = _columns(len(heads))
    rows = math.ceil(len(heads) / columns)
    figure = new_figure(*_size(rows, columns, key_subwords, query_subwords))
    with drawing_style({"axes.titlesize": 9}):
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for panel in panels.flat[len(heads) :]:
            panel.set_visible(False)
        shown = panels.flat[: len(heads)]
        for panel, head in zip(shown, heads, strict=True):
            image = _draw_head(panel, weights[head - 1], f"head {head}" if len(weights) > 1 else "")
        _label_axes(panels[:, 0], shown[-columns:], key_subwords, query_subwords)
        figure.supxlabel(key_label, fontsize=9)
        figure.supylabel(query_label, fontsize=9)
        figure.suptitle(title, fontsize=10, parse_math=False)
        bar = figure.colorbar(image, ax=panels, fraction=0.05, pad=0.02, aspect=30)
        bar.set_label("attention weight", fontsize=9)
        bar.ax.tick_params(labelsize=7)
    return figure


def check_attention(
    weights: np.ndarray, key_subwords: Sequence[str], query_subwords: Sequence[str], heads: Sequence[int] | None
) -> list[int]:
    """The heads to draw, counted from 1; None: all.

    Raises:
        DataError: the labels do not match the shape of the weights, or a head does not exist.
    """
    n_queries, n_keys = len(query_subwords), len(key_subwords)
    if weights.ndim != 3 or weights.shape[1:] != (n_queries, n_keys):
        raise DataError(
            f"plot attention: weights must have the shape (heads, {n_queries}, {n_keys}), got {weights.shape}"
        )
    heads = list(range(1, len(weights) + 1)) if heads is None else list(heads)
    if len(heads) > MAX_HEADS:
        raise DataError(
            f"plot attention: at most {MAX_HEADS} heads fit a picture, got {len(heads)}; choose some: --head"
        )
    for head in heads:
        if not 1 <= head <= len(weights):
            raise DataError(f"plot attention: head must be from 1 to {len(weights)}, got {head}")
    return heads


def _columns(n_heads: int) -> int:
    """Panels side by side: at most MAX_COLUMNS, such that all rows are full if possible."""
    full = [columns for columns in range(2, MAX_COLUMNS + 1) if n_heads % columns == 0]
    return max(full, default=min(n_heads, MAX_COLUMNS - 1))


def _size(rows: int, columns: int, key_subwords: Sequence[str], query_subwords: Sequence[str]) -> tuple[float, float]:
    """Width and height (inches) such that cells have the same size for any number and length of labels."""
    cell = max(CELL, SMALLEST_PANEL / max(len(key_subwords), len(query_subwords)))
    width = columns * (cell * len(key_subwords) + 0.1) + LETTER * max(map(len, query_subwords)) + 1.2
    height = rows * (cell * len(query_subwords) + 0.3) + LETTER * max(map(len, key_subwords)) + 0.8
    return max(width, SMALLEST_FIGURE), max(height, SMALLEST_FIGURE)


def _draw_head(panel: "Axes", weights: np.ndarray, name: str) -> "AxesImage":
    panel.set_title(name)
    panel.tick_params(labelsize=7, length=2)
    return panel.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")


def _label_axes(
    first: Sequence["Axes"], lowest: Sequence["Axes"], key_subwords: Sequence[str], query_subwords: Sequence[str]
) -> None:
    """Label the queries beside the first panel of each row, and the keys below the lowest of each column."""
    # parse_math=False: a "$" in the text does not begin a formula.
    for panel in first:
        panel.set_yticks(range(len(query_subwords)), list(query_subwords), parse_math=False)
    for panel in lowest:
        panel.tick_params(labelbottom=True)
        panel.set_xticks(range(len(key_subwords)), list(key_subwords), rotation=90, parse_math=False)
