"""Lesson 4: the products of attention as rectangles, and the mask of a batch."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

UNIT = 0.3
"""Side of one number, in the units of the axes."""


def matrix(axes: Axes, left: float, top: float, name: str, shape: tuple[int, int], letters: str, row: int | None):
    """A rectangle of ``shape`` with its name below and its shape above; ``row`` is dark."""
    height, width = (UNIT * n for n in shape)
    axes.add_patch(Rectangle((left, top - height), width, height, facecolor="0.93", edgecolor="k"))
    for i in range(1, shape[0]):
        axes.plot([left, left + width], [top - i * UNIT] * 2, color="0.75", linewidth=0.5)
    for j in range(1, shape[1]):
        axes.plot([left + j * UNIT] * 2, [top - height, top], color="0.75", linewidth=0.5)
    if row is not None:
        axes.add_patch(Rectangle((left, top - (row + 1) * UNIT), width, UNIT, facecolor="0.55", edgecolor="k"))
    axes.text(left + width / 2, top + 0.12, letters, ha="center", va="bottom", fontsize=9)
    axes.text(left + width / 2, top - height - 0.12, name, ha="center", va="top", fontsize=11)
    return left + width


def draw_products(n_queries: int = 5, n_keys: int = 7, d_k: int = 4, d_v: int = 3) -> None:
    """Equation 1 product by product; what belongs to one query is dark."""
    queries, keys, width, width_v = f"T = {n_queries}", f"S = {n_keys}", f"$d_k$ = {d_k}", f"$d_v$ = {d_v}"
    scores = (n_queries, n_keys)
    lines = (
        (
            ("$Q$", (n_queries, d_k), f"{queries}, {width}", 1, "$\\cdot$"),
            ("$K^T$", (d_k, n_keys), f"{width}, {keys}", None, "$/\\,\\sqrt{d_k}\\;=$"),
            ("scores", scores, f"{queries}, {keys}", 1, "softmax $\\to$"),
            ("weights", scores, f"{queries}, {keys}", 1, ""),
        ),
        (
            ("weights", scores, f"{queries}, {keys}", 1, "$\\cdot$"),
            ("$V$", (n_keys, d_v), f"{keys}, {width_v}", None, "$=$"),
            ("$Y$", (n_queries, d_v), f"{queries}, {width_v}", 1, ""),
        ),
    )
    _, axes = plt.subplots(figsize=(10, 4.4), layout="constrained")
    for line, top in zip(lines, (0.0, -3.2), strict=True):
        right = 0.0
        for name, shape, letters, row, sign in line:
            right = matrix(axes, right, top, name, shape, letters, row) + 0.15
            gap = {"": 0.0, "softmax $\\to$": 1.5}.get(sign, 1.2)
            axes.text(right + gap / 2, top - UNIT * n_queries / 2, sign, ha="center", va="center", fontsize=11)
            right += gap + 0.15
    axes.set(xlim=(-0.2, 13.0), ylim=(-5.9, 0.6), aspect="equal")
    axes.axis("off")
    plt.show()


def draw_batch_mask(sentences: Sequence[Sequence[str]]) -> None:
    """For each sentence of a batch: causal, and real keys, give its target mask (True is white)."""
    length = max(map(len, sentences))
    causal = np.tri(length, dtype=bool)
    figure, panels = plt.subplots(len(sentences), 3, figsize=(9, 3.1 * len(sentences)), layout="constrained")
    for line, words in zip(panels, sentences, strict=True):
        padded = [*words, *["(pad)"] * (length - len(words))]
        real = np.broadcast_to(np.arange(length) < len(words), (length, length))
        parts = {"causal: not later": causal, "real keys: no padding": real, "both: the target mask": causal & real}
        for panel, (title, mask) in zip(line, parts.items(), strict=True):
            panel.imshow(mask, cmap="gray", vmin=-0.6, vmax=1)
            panel.set(title=title, xticks=range(length), yticks=range(length), yticklabels=padded)
            panel.set_xticklabels(padded, rotation=90)
            panel.set_xticks(np.arange(length) - 0.5, minor=True)
            panel.set_yticks(np.arange(length) - 0.5, minor=True)
            panel.grid(which="minor", color="0.6", linewidth=0.7)
            panel.tick_params(which="minor", length=0)
        line[0].set_ylabel("query")
    for panel in panels[-1]:
        panel.set_xlabel("key")
    figure.suptitle(
        f"B = {len(sentences)} sentences, T = {length}: a mask of shape ({len(sentences)}, {length}, {length})"
    )
    plt.show()
