"""Trees over the words of their sentence (lesson 19)."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

LABEL = {"ha": "center", "va": "center", "bbox": {"facecolor": "w", "edgecolor": "none", "pad": 1.5}}


def draw_trees(trees: Mapping[str, tuple]) -> None:
    """Trees beside each other, each under its title; a tree is ``(label, part, ...)`` or ``(tag, word)``."""
    figure, panels = plt.subplots(1, len(trees), figsize=(5.2 * len(trees), 3.6), layout="constrained", squeeze=False)
    for panel, (title, tree) in zip(panels.flat, trees.items(), strict=True):
        width, (_, height) = draw_part(panel, tree, 0)
        panel.set(title=title, xlim=(-0.6, width - 0.4), ylim=(-1.4, height + 0.5))
        panel.axis("off")
    plt.show()


def draw_part(axes: Axes, tree: tuple, first: int) -> tuple[int, tuple[float, int]]:
    """Draws a part whose first word has this number. Returns the next number after it, and its label's place."""
    label, *parts = tree
    if isinstance(parts[0], str):
        axes.text(first, -0.9, parts[0], ha="center", va="center", style="italic")
        place, end = (float(first), 0), first + 1
    else:
        below, end = [], first
        for part in parts:
            end, child = draw_part(axes, part, end)
            below.append(child)
        place = (below[0][0] + below[-1][0]) / 2, 1 + max(y for _, y in below)
        for child in below:
            axes.plot(*zip(place, child, strict=True), color="0.55", linewidth=1, zorder=0)
    axes.text(*place, label, **LABEL)
    return end, place
