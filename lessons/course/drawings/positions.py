"""Positions as clock hands."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from minitransformer.nn.positions import sinusoids


def draw_hands(positions: tuple[int, ...] = (0, 1, 2, 3, 10, 100), d_model: int = 8) -> Figure:
    """Each pair (sin, cos) of a position as the hand of a clock, one row per position."""
    rows = sinusoids(0, max(positions) + 1, d_model)
    figure, axes = plt.subplots(figsize=(5.4, 5.6), layout="constrained")
    for y, position in enumerate(positions):
        axes.text(-0.9, -y, f"position {position}", ha="right", va="center")
        for i in range(d_model // 2):
            axes.add_patch(Circle((i, -y), 0.4, facecolor="none", edgecolor="0.6"))
            sine, cosine = 0.38 * rows[position, 2 * i : 2 * i + 2]
            axes.plot([i, i + sine], [-y, -y + cosine], "k-", linewidth=2)
    for i in range(d_model // 2):
        turn = 2 * np.pi * 10000 ** (2 * i / d_model)
        axes.text(i, 0.75, f"pair {i}\na turn in\n{turn:,.0f} tokens", ha="center", va="bottom", fontsize=8)
    axes.set(xlim=(-2.6, d_model / 2 - 0.4), ylim=(0.6 - len(positions), 1.9), aspect="equal")
    axes.axis("off")
    return figure
