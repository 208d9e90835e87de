"""Compares the loss curve of a PyTorch run with those of several seeds of ours: does it lie within seed noise?

    python -m benchmarks.compare_curves --ours SEED1 SEED2 SEED3 --pytorch RUN --output benchmarks/results/multi30k

Each run is a metrics file. Two answers per window of updates. The band is the lowest to the highest of our seeds; it is
narrow: of four runs that differ in their seed alone, the fourth lies between the other three only half the time. The
interval is where another seed of ours would lie 95 times in a hundred (Student's t, from the spread of our seeds).
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.errors import DataError, MiniTransformerError
from minitransformer.figures.canvas import new_figure, png_bytes
from minitransformer.training import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t for 1, 2, ... degrees of freedom."""

OURS, THEIRS = "#0072b2", "#d55e00"

Curve = dict[int, float]
"""Label-smoothed training loss, nats per target token, by the update that ends the interval it is a mean of."""


def read_curve(path: str | Path, updates: int) -> Curve:
    """The first ``updates`` updates of a run.

    Raises:
        DataError: the file cannot be read, or the run is shorter.
    """
    curve = {line["update"]: line["loss"] for line in read_metrics(path) if line["kind"] == "train"}
    if max(curve, default=0) < updates:
        raise DataError(f"compare_curves: {path} must reach update {updates}, got {max(curve, default=0)}")
    return {update: loss for update, loss in curve.items() if update <= updates}


def compare(ours: Sequence[Curve], pytorch: Curve, window: int) -> dict:
    """Per window the mean loss of every run, and whether PyTorch's lies in the band and in the interval of ours.

    window: updates

    Raises:
        DataError: fewer than two or more than ten runs of ours, or runs that were not logged at the same updates.
    """
    if not 2 <= len(ours) <= len(T_QUANTILES) + 1:
        raise DataError(f"compare_curves: runs of ours must be from 2 to {len(T_QUANTILES) + 1}, got {len(ours)}")
    if any(list(curve) != list(pytorch) for curve in ours):
        raise DataError("compare_curves: all runs must be logged at the same updates; give each the same log_every")
    windows = []
    for last in range(window, max(pytorch) + 1, window):
        updates = [update for update in pytorch if last - window < update <= last]
        if not updates:
            raise DataError(f"compare_curves: window must be at least log_every, got {window} updates without a line")
        means = [statistics.fmean(curve[update] for update in updates) for curve in [*ours, pytorch]]
        windows.append({"updates": [last - window + 1, last], **_judged(means[:-1], means[-1])})
    return {
        "windows": windows,
        "within_band": sum(window["within_band"] for window in windows),
        "within_interval": sum(window["within_interval"] for window in windows),
        "of": len(windows),
    }


def _judged(ours: list[float], pytorch: float) -> dict:
    """interval = mean +- t s sqrt(1 + 1 / n): where one more draw lies, given n draws with standard deviation s"""
    n, mean = len(ours), statistics.fmean(ours)
    reach = T_QUANTILES[n - 2] * statistics.stdev(ours) * math.sqrt(1 + 1 / n)
    return {
        "ours": ours,
        "pytorch": pytorch,
        "difference": pytorch - mean,  # from the mean of ours
        "standard_deviation": statistics.stdev(ours),
        "interval": [mean - reach, mean + reach],
        "within_band": min(ours) <= pytorch <= max(ours),
        "within_interval": abs(pytorch - mean) <= reach,
    }


def draw(ours: Sequence[Curve], pytorch: Curve, result: dict) -> "Figure":
    """Above, the curves; below, the same as differences from the mean of our seeds, where the noise can be seen."""
    figure = new_figure(8.0, 8.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    updates = list(pytorch)
    for curve in ours:
        above.plot(updates, list(curve.values()), color=OURS, linewidth=0.7, label=f"ours, each of {len(ours)} seeds")
    _draw_spread(above, ours, pytorch, [0.0] * len(updates))
    _draw_spread(below, ours, pytorch, [statistics.fmean(curve[update] for curve in ours) for update in updates])
    _draw_windows(below, result["windows"])
    above.set_title(f"Training loss over the first {updates[-1]} updates: NumPy (ours) and PyTorch", fontsize=11)
    above.set_ylabel("label-smoothed loss, nats per target token")
    below.set_ylabel("difference from the mean\nof our seeds, nats per token")
    below.set_xlabel("update")
    for axes in (above, below):
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    lines = {
        label: line for axes in (above, below) for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_spread(axes: "Axes", ours: Sequence[Curve], pytorch: Curve, baseline: list[float]) -> None:
    """The band of our seeds and PyTorch's curve, both less ``baseline``."""
    updates = list(pytorch)
    columns = [[curve[update] for curve in ours] for update in updates]
    low, high = (
        [extreme(column) - base for column, base in zip(columns, baseline, strict=True)] for extreme in (min, max)
    )
    axes.fill_between(updates, low, high, color=OURS, alpha=0.2, linewidth=0, label="ours, lowest to highest")
    losses = [loss - base for loss, base in zip(pytorch.values(), baseline, strict=True)]
    axes.plot(updates, losses, color=THEIRS, linewidth=1.4, linestyle=(0, (5, 2)), label="PyTorch")


def _draw_windows(axes: "Axes", windows: Sequence[dict]) -> None:
    """For each window PyTorch's mean difference, and the interval of another seed of ours around zero."""
    middles = [sum(window["updates"]) / 2 for window in windows]
    reaches = [(window["interval"][1] - window["interval"][0]) / 2 for window in windows]
    style = {"fmt": "none", "ecolor": "#000000", "elinewidth": 1.0, "capsize": 4}
    axes.errorbar(middles, [0.0] * len(middles), yerr=reaches, **style, label="one more seed of ours, 95 % of the time")
    differences = [window["difference"] for window in windows]
    axes.plot(middles, differences, "o", color=THEIRS, markersize=5, label="PyTorch, mean of a window")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_curves", description=__doc__.split("\n")[0])
    parser.add_argument("--ours", nargs="+", type=Path, required=True, metavar="FILE", help="metrics of our seeds")
    parser.add_argument("--pytorch", type=Path, required=True, metavar="FILE", help="metrics of the PyTorch run")
    parser.add_argument("--updates", type=int, default=500, help="compare the first updates (default: 500)")
    parser.add_argument("--window", type=int, default=50, help="updates in a window (default: 50)")
    parser.add_argument("--output", type=Path, required=True, help="where to write, without .png and .json")
    options = parser.parse_args(argv)
    try:
        ours = [read_curve(path, options.updates) for path in options.ours]
        pytorch = read_curve(options.pytorch, options.updates)
        result = compare(ours, pytorch, options.window)
        picture = png_bytes(draw(ours, pytorch, result))
    except MiniTransformerError as error:
        print(error, file=sys.stderr)
        return 2
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".png").write_bytes(picture)
    options.output.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(
        f"PyTorch lies within the band of our seeds in {result['within_band']} of {result['of']} windows, "
        f"within the 95 % interval of one more seed in {result['within_interval']}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
