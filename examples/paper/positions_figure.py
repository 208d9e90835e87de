"""The picture of positions.py: how far beyond the training length sequences are copied."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from examples.paper.positions_report import CONTROL, OURS, names_of
from examples.paper.seeds import standard_error, values_of
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "learned": ("learned positions", "#d55e00", "s"),
    OURS: ("sinusoids", "#0072b2", "o"),
    CONTROL: ("sinusoids, sequences of training begin anywhere", "#009e73", "^"),
}


def draw(results: Sequence[dict]) -> "Figure":
    """A panel for each longest training length: sequences whose symbols are all right, by length."""
    settings = results[0]["settings"]
    longest = sorted([settings["longest"], *settings["others"]])
    ratios = np.array(settings["tested"]) / settings["longest"]
    figure = new_figure(3 * len(longest), 3.6)
    panels = figure.subplots(1, len(longest), sharey=True)
    for axes, length in zip(panels, longest, strict=True):
        suffix = "" if length == settings["longest"] else f", up to {length}"
        for kind, (label, color, marker) in KINDS.items():
            if f"{kind}{suffix}" in names_of(results):
                copied = 100 * values_of(results, "copied", name=f"{kind}{suffix}")  # (seeds, lengths)
                errors = [standard_error(column) for column in copied.T]
                style = {"color": color, "marker": marker, "capsize": 2, "markersize": 4, "linewidth": 1.2}
                axes.errorbar(ratios, copied.mean(axis=0), errors, label=label, **style)
        axes.axvline(1, color="#999999", linewidth=0.8, linestyle=":")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_title(f"trained up to {length} symbols", fontsize=10)
        axes.set_xlabel("length / longest training length")
    panels[0].set_ylabel("sequences with all symbols right, %")
    lines, labels = panels[longest.index(settings["longest"])].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(lines), frameon=False)
    return figure
