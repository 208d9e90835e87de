"""F1 against minutes of the parsers that `train` has trained: a table and a picture, results/aligned.md and .png.

    python -m examples.parsing.compare

Minutes are updates times the seconds of an update in results/speed.json, which `speed` measures on a quiet machine.
During training, F1 is that of greedy parses of the development set; at the end, that of the mean of checkpoints with
the recipe's beam.
"""

import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from examples import report_errors
from examples.paper.crossing import Curve, Overtaking
from examples.paper.program import read_results, showing, write_report
from examples.paper.seeds import with_error
from examples.parsing.speed import read_speeds
from examples.parsing.train import RESULTS
from examples.report import markdown_table, page
from minitransformer.cli.main import Parser
from minitransformer.errors import DataError
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = [5, 10, 20, 40, 80, 120, 240, 480]
"""Minutes at which the table shows F1, between the first and the last point of a training."""
MODELS = {"aligned": "Transformer", "aligned-recurrent": "recurrent model"}
"""What the recipes are called in the table and in the picture."""
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]


class ParserCurve(Curve):
    """F1 of one parser: of those ``results`` with the largest number of updates, where all of them have a score."""

    def __init__(self, name: str, results: Sequence[dict], update_seconds: float):
        longest = max(result["points"][-1]["update"] for result in results)
        self.results = [each for each in results if each["points"][-1]["update"] == longest]
        f1 = {each["seed"]: {point["update"]: point["f1"] for point in each["points"]} for each in self.results}
        updates = sorted(set.intersection(*map(set, f1.values())))
        scores = {seed: [found[update] for update in updates] for seed, found in f1.items()}
        recipe, _, form = name.rpartition("-")
        minutes = [update * update_seconds / 60 for update in updates]
        super().__init__(f"{MODELS.get(recipe, recipe)}, form {form}", minutes, scores)


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m examples.parsing.compare", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=["aligned-C", "aligned-recurrent-C"], help="names of results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results (default results/)")
    arguments = parser.parse_args(argv)
    curves = read_curves(arguments.results, arguments.names)
    with showing(arguments.results):
        text, figure = report(curves), draw(curves)
    write_report(arguments.results / "aligned", text, figure)
    return 0


def read_curves(folder: Path, names: Sequence[str]) -> list[ParserCurve]:
    """DataError: a name has no result, or no speed."""
    speeds, curves = read_speeds(folder / "speed.json"), []
    for name in names:
        results = [each for each in read_results(folder / f"{name}.jsonl") if each["name"].startswith("dev")]
        for missing, where in ((results, f"{name}.jsonl"), (name in speeds, "speed.json")):
            if not missing:
                raise DataError(
                    f"{folder / where}: must hold {name}, got nothing of it; `train` and `speed` write them"
                )
        with showing(folder):
            curves.append(ParserCurve(name, results, speeds[name]["seconds"]))
    return curves


def report(curves: Sequence[ParserCurve]) -> str:
    rows = [
        [str(budget), *(with_error(curve.at(budget), 1) if curve.covers(budget) else "-" for curve in curves)]
        for budget in BUDGETS
        if any(curve.covers(budget) for curve in curves)
    ]
    pairs = [curves[:2]] if len(curves) > 1 else []
    ends = [with_error(np.array([result["score"]["f1"] for result in curve.results]), 1) for curve in curves]
    rows.append(["end: mean of checkpoints, beam", *ends])
    rows.append(["minutes at the end", *(f"{curve.minutes[-1]:.0f}" for curve in curves)])
    rows.append(["seeds", *(str(len(curve.results)) for curve in curves)])
    told = [f"{one.name}, compared with the {other.name}: {Overtaking(one, other).verdict()}." for one, other in pairs]
    return page(markdown_table(["minutes", *(curve.name for curve in curves)], rows), *told)


def draw(curves: Sequence[ParserCurve]) -> "Figure":
    figure = new_figure(7, 4.4)
    axes = figure.subplots()
    for curve, color in zip(curves, cycle(COLORS), strict=False):
        mean, style = curve.scores.mean(axis=0), {"color": color, "capsize": 2, "markersize": 3.5}
        axes.errorbar(curve.minutes, mean, curve.error(), fmt="o-", label=curve.name, **style)
        end = np.array([result["score"]["f1"] for result in curve.results])
        axes.plot(curve.minutes[-1], end.mean(), "*", color=color, markersize=11)
    axes.set(xlabel="minutes of one core", ylabel="bracket F1, development set", ylim=(0, 100))
    axes.set_title("F1 while learning; stars: mean of checkpoints, beam")
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, loc="lower right")
    return figure


if __name__ == "__main__":
    sys.exit(main())
