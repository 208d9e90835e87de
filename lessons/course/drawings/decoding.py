"""What a key-value cache holds from step to step (lesson 12)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

WIDTH = 1.5
"""Of a matrix, in heights of a row."""
KEPT, NEW = {"facecolor": "0.85"}, {"facecolor": "0.35", "hatch": "////"}


def draw_cache(target: Sequence[str], source: Sequence[str]) -> Figure:
    """One panel for each step: the query that is computed, and the keys and values, a row for each position.

    target: the token that each step is given   source: tokens of the source, whose rows never change
    """
    figure, panels = plt.subplots(1, len(target), figsize=(2.3 * len(target), 3.6), layout="constrained", sharey=True)
    lowest = len(target) + 1.6  # the first row of the source
    for t, panel in enumerate(panels, 1):
        draw_rows(panel, 0, 0, target[t - 1 : t], new=1)
        for column, name in enumerate("KV", 1):
            left = column * (WIDTH + 0.4)
            draw_rows(panel, left, 0, target[:t], new=1)
            draw_rows(panel, left, lowest, source, new=0)
            panel.text(left + WIDTH / 2, -0.4, name, ha="center", weight="bold")
        panel.text(WIDTH / 2, -0.4, "Q", ha="center", weight="bold")
        panel.set_title(f"step {t}: {t} row{'s' * (t > 1)} of the target", fontsize=9)
        panel.set(xlim=(-0.1, 3 * WIDTH + 0.9), ylim=(lowest + len(source) + 0.1, -1.1))
        panel.axis("off")
    panels[0].text(0, lowest + 0.2, "the source,\ncomputed\nonce", fontsize=8, va="top")
    marks = [Rectangle((0, 0), 1, 1, edgecolor="k", **style) for style in (NEW, KEPT)]
    figure.legend(marks, ["computed in this step", "kept from before"], loc="outside lower center", ncols=2)
    return figure


def draw_rows(panel: Axes, left: float, top: float, words: Sequence[str], new: int) -> None:
    """A matrix with a row for each word, of which the last ``new`` are computed in this step."""
    for row, word in enumerate(words):
        is_new = row >= len(words) - new
        panel.add_patch(Rectangle((left, top + row), WIDTH, 1, edgecolor="k", **(NEW if is_new else KEPT)))
        style = {"color": "k", "backgroundcolor": "w"} if is_new else {"color": "k"}
        panel.text(left + WIDTH / 2, top + row + 0.5, word, ha="center", va="center", fontsize=8, **style)
