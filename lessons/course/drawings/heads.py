"""Heads as slices of one matrix."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

GRAYS = ("0.92", "0.75", "0.55")


def draw_heads(length: int = 3, width: int = 2) -> Figure:
    """A packed projection, (T, h d), the view after the reshape and the heads after the swap; each cell holds its
    place in memory, so that one sees which numbers travel together."""
    figure, axes = plt.subplots(figsize=(9.5, 2.9), layout="constrained")
    n_heads = len(GRAYS)
    for t in range(length):
        for column in range(n_heads * width):
            head, j = divmod(column, width)
            number = t * n_heads * width + column
            _cell(axes, column, -t, head, number)
            _cell(axes, 8.2 + head * (width + 0.5) + j, -t, head, number)
            _cell(axes, 17.5 + 0.55 * head + j + head * width, -t - 0.25 * head, head, number)
    for x, text in (
        (3.0, f"packed: (T, h d) = ({length}, {n_heads * width})"),
        (11.7, f"reshape: (T, h, d) = ({length}, {n_heads}, {width})"),
        (21.0, f"swap: (h, T, d) = ({n_heads}, {length}, {width})"),
    ):
        axes.text(x, 1.7, text, ha="center")
    for t in range(length):
        axes.text(-0.3, 0.5 - t, f"word {t}", ha="right", va="center", fontsize=9)
    for x in (6.4, 15.9):
        axes.annotate("", (x + 1.2, -0.5), (x, -0.5), arrowprops={"arrowstyle": "->"})
    for head in range(n_heads):
        x = 17.5 + head * (width + 0.55) + width / 2
        axes.text(x, -length - 0.15 - 0.25 * head, f"head {head}", ha="center", va="center", fontsize=9)
    axes.set(xlim=(-2.2, 25.5), ylim=(-length - 1.1, 2.4), aspect="equal")
    axes.axis("off")
    return figure


def _cell(axes: Axes, x: float, y: float, head: int, number: int) -> None:
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=GRAYS[head], edgecolor="k", linewidth=0.8))
    axes.text(x + 0.5, y + 0.5, str(number), ha="center", va="center", fontsize=8)
