"""Learning curves: loss and perplexity against the update, for one or more runs."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from minitransformer.errors import DataError, printable, quote
from minitransformer.figures.canvas import known_fonts, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Runs also differ in brightness and dashes, so that curves are distinct in grayscale and to the color-blind.
COLORS = ("#000000", "#d55e00", "#0072b2", "#999999", "#009e73", "#cc79a7")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (9, 3)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
MAX_MARKS = 12
"""Maximum number of markers on a validation curve; more would hide the line."""
MAX_LABEL = 60
"""Characters of a label in the legend."""


def draw_learning_curves(runs: Mapping[str, Sequence[dict]]) -> "Figure":
    """Loss (left) and perplexity (right) against the update; training as a line, validation with markers.

    runs: label in the legend -> lines of the run's metrics file; of the lines of kind ``train`` and ``valid``,
        ``update``, ``loss`` (nats per target token, label-smoothed) and ``ppl`` are used

    Raises:
        DataError: no runs, a run without such lines, or a line in which one of the three keys is not a number.
        MissingPackageError: matplotlib is not installed.
    """
    if not runs:
        raise DataError("plot curves: there must be at least one run, got none")
    figure = new_figure(10.0, 4.0 + 0.25 * len(runs))
    left, right = figure.subplots(1, 2, sharex=True)
    for number, (label, lines) in enumerate(runs.items()):
        curves = {kind: [line for line in lines if line.get("kind") == kind] for kind in ("train", "valid")}
        if not any(curves.values()):
            raise DataError(f"plot curves: {label} must have lines of kind train or valid, got none")
        for axes, key in ((left, "loss"), (right, "ppl")):
            _draw_run(axes, curves, key, number, printable(label, MAX_LABEL))
    _style_axes(left, "loss, label smoothing included", "nats per target token")
    _style_axes(right, "perplexity", "per target token, log scale")
    right.set_yscale("log", subs=(2, 5))
    right.yaxis.set_major_formatter("{x:g}")  # 20 and not 2 x 10^1
    right.yaxis.set_minor_formatter("{x:g}")
    style = {"prop": {"family": known_fonts()}, "frameon": False}
    drawn = left.get_lines()
    legend = figure.legend(drawn, ["curve"] * len(drawn), loc="outside upper center", ncols=2, **style)
    for text, line in zip(legend.get_texts(), drawn, strict=True):  # a "$" begins no formula, and a "_" hides no curve
        text.set(text=line.get_label(), parse_math=False)
    return figure


def _draw_run(axes: "Axes", curves: Mapping[str, list[dict]], key: str, number: int, label: str) -> None:
    color = COLORS[number % len(COLORS)]
    # Without markers, a run with few lines would hardly be visible.
    marker = "." if len(curves["train"]) < 3 else None
    if curves["train"]:
        style = {"color": color, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.4, "marker": marker}
        axes.plot(*_points(curves["train"], key, label), **style, label=f"{label}, training")
    if curves["valid"]:
        style = {"color": color, "linewidth": 0.8, "marker": MARKERS[number % len(MARKERS)]}
        style |= {"markerfacecolor": "white", "markersize": 5, "markevery": -(-len(curves["valid"]) // MAX_MARKS)}
        axes.plot(*_points(curves["valid"], key, label), **style, label=f"{label}, validation")


def _points(lines: Sequence[dict], key: str, label: str) -> tuple[list[float], list[float]]:
    for line in lines:
        for name in ("update", key):
            value = line.get(name)
            if type(value) not in (int, float) or (name == "ppl" and value <= 0):
                expected = "a number above 0" if name == "ppl" else "a number"
                raise DataError(f"plot curves: {label}: {name} must be {expected} in each line, got {quote(value)}")
    # A value that no axis can show leaves a gap: a perplexity may overflow.
    return tuple([line[name] if abs(line[name]) < 1e200 else math.nan for line in lines] for name in ("update", key))


def _style_axes(axes: "Axes", title: str, y_label: str) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("update")
    axes.set_ylabel(y_label)
    axes.grid(True, which="both", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
