"""Time per op in an update: one bar for each op, split into forward and backward."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The parts of a bar also differ in brightness, so that they can be told apart in greyscale.
PARTS = {"forward": "#a6cee3", "backward": "#1f78b4", "whole": "#999999"}
SMALLEST = 0.005
"""Ops below this fraction of the total are drawn as one bar."""


def draw_times(table: Mapping[str, Mapping[str, float]], updates: int, threads: int) -> "Figure":
    """Horizontal bars, the longest on top.

    table: ``{op: {"forward" | "backward" | "whole": milliseconds per update}}``, as ``Profile.per_update`` gives it
    updates: number of updates that the times are averaged over
    threads: number of threads whose times are added up

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    rows = _group_small_ops(table)
    figure = new_figure(8.0, 1.6 + 0.32 * len(rows))
    axes = figure.subplots()
    lengths = np.array([[parts.get(part, 0.0) for parts in rows.values()] for part in PARTS])  # (parts, ops)
    ends = lengths.cumsum(axis=0)
    for (part, colour), length, end in zip(PARTS.items(), lengths, ends, strict=True):
        style = {"color": colour, "edgecolor": "black", "linewidth": 0.5}
        bars = axes.barh(list(rows), length, left=end - length, label=part, **style)
    axes.bar_label(bars, [f"{share:.1%}" for share in ends[-1] / ends[-1].sum()], padding=4, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * ends[-1].max())  # space for the percentages
    suffix = "" if threads == 1 else f", {threads} threads added up"
    axes.set_xlabel(f"milliseconds per update{suffix}")
    axes.set_title(f"Where the time of an update goes (mean of {updates:,})", fontsize=11)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _group_small_ops(table: Mapping[str, Mapping[str, float]]) -> dict[str, Mapping[str, float]]:
    whole = sum(sum(parts.values()) for parts in table.values())
    large = {name: parts for name, parts in table.items() if sum(parts.values()) >= SMALLEST * whole}
    small = [parts for name, parts in table.items() if name not in large]
    if small:
        large[f"{len(small)} smaller ops"] = {part: sum(parts.get(part, 0.0) for parts in small) for part in PARTS}
    return large
