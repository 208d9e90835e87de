"""Every way to cut a word into pieces, as arrows between the places of its letters (lesson 10)."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

HEIGHT = 0.42
"""Of an arc, for each letter that it spans."""


def draw_lattice(text: str, scores: Mapping[str, float], sums: Sequence[float], pieces: Sequence[str]) -> None:
    """Pieces with their scores; below each place the best sum that reaches it. The way of ``pieces`` is thick."""
    _, axes = plt.subplots(figsize=(10, 3.8), layout="constrained")
    ends = list(accumulate(map(len, pieces)))
    best = set(zip([0, *ends], ends, strict=False))
    for end in range(1, len(text) + 1):
        for start in range(end):
            if text[start:end] in scores:
                label = f"{text[start:end]} {scores[text[start:end]]:.0f}".replace("-", "\N{MINUS SIGN}")
                draw_piece(axes, start, end, label, (start, end) in best)
    for place, total in enumerate(sums):
        axes.plot(place, 0, "ko", markersize=9, markerfacecolor="w", zorder=3)
        axes.text(place, -0.62, f"{total:.0f}".replace("-", "\N{MINUS SIGN}"), ha="center", weight="bold")
    axes.text(-0.25, -0.62, "best sum:", ha="right")
    axes.set(xlim=(-1.0, len(text) + 0.3), ylim=(-0.9, HEIGHT * len(text)))
    axes.axis("off")
    plt.show()


def draw_piece(axes: Axes, start: int, end: int, label: str, is_best: bool) -> None:
    """A straight line for a letter, labeled below, and an arc for a longer piece, labeled at its top."""
    style = {"color": "k", "linewidth": 3} if is_best else {"color": "0.55", "linewidth": 1}
    angle = np.linspace(np.pi, 0, 60)
    height = HEIGHT * (end - start) if end - start > 1 else 0.0
    middle, radius = (start + end) / 2, (end - start) / 2
    axes.plot(middle + radius * np.cos(angle), height * np.sin(angle), **style)
    box = {"facecolor": "w", "edgecolor": "none", "pad": 1}
    place = {"va": "center", "bbox": box} if height else {"va": "top"}
    weight = "bold" if is_best else "normal"
    axes.text(middle, height or -0.1, label, ha="center", fontsize=10, weight=weight, **place)
