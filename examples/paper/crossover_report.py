"""The page and the picture of crossover.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from examples.paper.crossing import Curve, Overtaking
from examples.paper.seeds import VERDICTS, at_the_edge, holm, with_error
from examples.paper.trials import provenance
from examples.report import markdown_table, page
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BUDGETS = [5, 20, 40, 80]
"""Minutes at which the models are compared in numbers."""
RECURRENT = "GRU"
LABELS = {"GRU": "GRU, additive attention", "post-norm": "Transformer, post-norm", "pre-norm": "Transformer, pre-norm"}
COLORS = {"GRU": "#d55e00", "post-norm": "#999999", "pre-norm": "#0072b2"}
MEASURES = {"Multi30k": "BLEU of val", "parsing": "F1 of the development set"}
TEST = "Student's t-test, paired by seed, at the last point that both models have,"
SCHEDULE = (
    "One training per seed is scored at all its minutes. The learning rate falls as in eq. 3, after the same number of"
    " warm-up updates, and does not depend on when the training ends. A point is therefore the score of a training that"
    " continues beyond it, and a schedule, a learning rate or a dropout rate chosen for one budget may score higher"
    " there. The learning rates were chosen early in training, and the dropout rate for no particular budget. The"
    " newest weights are scored with greedy search, without checkpoint averaging and without choosing the best point"
    " so far."
)


def curves_of(results: Sequence[dict]) -> dict[tuple[str, str], Curve]:
    """(task, model) -> the longest training of each seed, in the order of the settings."""
    settings = results[0]["settings"]
    scores: dict[tuple[str, str], dict] = {(task, model): {} for task in settings["tasks"] for model in LABELS}
    for result in sorted(results, key=lambda result: result["minutes"]):
        if result["part"] == "val":
            points = [point["score"] for point in result["points"]]
            scores[result["task"], result["model"]][result["seed"]] = points
    return {key: Curve(LABELS[key[1]], settings["minutes"], found) for key, found in scores.items() if found}


def overtakings(curves: dict[tuple[str, str], Curve]) -> dict[tuple[str, str], Overtaking]:
    """(task, Transformer) -> its comparison with the recurrent model, where both have been trained."""
    pairs = {(task, model): curves.get((task, RECURRENT)) for task, model in curves if model != RECURRENT}
    return {key: Overtaking(curves[key], other) for key, other in pairs.items() if other is not None}


def losses_of(results: Sequence[dict], task: str, model: str) -> dict[float, float]:
    """Learning rate -> validation loss of the step `rates`."""
    wanted = ("rates", task, model)
    found = [each for each in results if (each["part"], each["task"], each["model"]) == wanted]
    return {result["rate"]: result["points"][-1]["nll"] for result in found}


def markdown(results: Sequence[dict]) -> str:
    curves = curves_of(results)
    blocks = [
        "# When does attention overtake recurrence?",
        verdicts(overtakings(curves)),
        "The differences are the Transformer's score minus the GRU's, seed by seed. A curve crosses at the point from"
        " which it stays above the other to the end. In parentheses: the first and the last seed to cross.",
        "![Score against minutes, and where the curves cross](crossover.png)",
        SCHEDULE,
        provenance("crossover", results, TEST, ("models", "update_seconds")),
    ]
    for task in dict.fromkeys(task for task, _ in curves):
        blocks += [f"## {task}", f"{MEASURES[task]}:", score_table(curves, task), tests(results, task)]
        blocks += [model_table(results, task), edges(results, task)]
    return page(*blocks)


def rates_page(results: Sequence[dict]) -> str:
    """The results of the step `rates`."""
    tasks = dict.fromkeys(result["task"] for result in results)
    return page(*(text for task in tasks for text in (f"{task}:", model_table(results, task), edges(results, task))))


def verdicts(pairs: dict[tuple[str, str], Overtaking]) -> str:
    rows = []
    for ((task, _), pair), p in zip(pairs.items(), holm([pair.p for pair in pairs.values()]), strict=True):
        start, end = pair.minutes[0], pair.minutes[-1]
        found = [with_error(pair.difference(each), 1) if start <= each <= end else "-" for each in BUDGETS]
        claim = f"{task}: the {pair.first.name}, overtakes the GRU"
        rows.append([claim, *found, "-" if np.isnan(p) else f"{p:.3f}", pair.verdict(p)])
    if not rows:
        return "No Transformer has been trained beside the GRU yet."
    return markdown_table([VERDICTS[0], *(f"after {each} minutes" for each in BUDGETS), "p", VERDICTS[2]], rows)


def score_table(curves: dict[tuple[str, str], Curve], task: str) -> str:
    """Means over the seeds at every point."""
    found = [curve for (name, _), curve in curves.items() if name == task]
    longest = max((curve.minutes for curve in found), key=len)
    rows = [
        [f"{minutes:g}", *(with_error(curve.at(minutes), 1) if curve.covers(minutes) else "-" for curve in found)]
        for minutes in longest
    ]
    rows.append(["seeds", *(", ".join(map(str, curve.seeds)) for curve in found)])
    return markdown_table(["minutes", *(curve.name for curve in found)], rows)


def tests(results: Sequence[dict], task: str) -> str:
    """Test-set scores; empty if there are none."""
    found: dict[tuple[str, float], list[float]] = {}
    for result in results:
        if (result["part"], result["task"]) == ("test", task):
            found.setdefault((result["model"], result["minutes"]), []).append(result["score"])
    if not found:
        return ""
    rows = [
        [LABELS[model], f"{minutes:g}", with_error(np.array(each), 1), str(len(each))]
        for (model, minutes), each in found.items()
    ]
    return markdown_table(["test set, scored once", "minutes", MEASURES[task].split()[0], "seeds"], rows)


def model_table(results: Sequence[dict], task: str) -> str:
    """Sizes, speeds, and the losses by which the learning rates were chosen."""
    settings, rows = results[0]["settings"], []
    rates = sorted({rate for model in LABELS for rate in losses_of(results, task, model)})
    for model, label in LABELS.items():
        losses = losses_of(results, task, model)
        sizes = [each for each in results if (each["task"], each["model"]) == (task, model)]
        if sizes:
            seconds = settings["update_seconds"][f"{task}, {model}"]
            shown = [f"{losses[rate]:.3f}" if rate in losses else "-" for rate in rates]
            rows.append([label, str(sizes[0]["width"]), f"{sizes[0]['parameters']:,}", f"{seconds:.3f}", *shown])
    losses = [f"nats per token at {rate:g}" for rate in rates]
    return markdown_table(["model", "width", "parameters", "seconds per update", *losses], rows)


def edges(results: Sequence[dict], task: str) -> str:
    """Which models learned best with the lowest or the highest learning rate that was tried."""
    losses = {label: losses_of(results, task, model) for model, label in LABELS.items()}
    best = {label: min(each, key=each.get) for label, each in losses.items() if each}
    return at_the_edge([label for label, rate in best.items() if rate in (min(losses[label]), max(losses[label]))])


def draw(results: Sequence[dict]) -> "Figure":
    """Score against minutes, a panel for each task: thin lines are seeds, a ring or a disc is where a mean crosses."""
    curves = curves_of(results)
    tasks = list(dict.fromkeys(task for task, _ in curves))
    figure = new_figure(5.5 * len(tasks), 4.4)
    for task, axes in zip(tasks, figure.subplots(1, len(tasks), squeeze=False)[0], strict=True):
        for (name, model), curve in curves.items():
            if name == task:
                axes.plot(curve.minutes, curve.scores.T, color=COLORS[model], linewidth=0.7, alpha=0.5)
                style = {"color": COLORS[model], "markersize": 3.5, "label": curve.name}
                axes.plot(curve.minutes, curve.scores.mean(axis=0), "o-", **style)
        mark_crossings(axes, curves, task)
        minutes = results[0]["settings"]["minutes"]
        axes.set(xscale="log", xlabel="minutes of one core", ylabel=MEASURES[task], title=task)
        axes.set_xticks(minutes, [f"{each:g}" for each in minutes])
        axes.minorticks_off()
        axes.set_xlim(0.9 * minutes[0], 1.1 * minutes[-1])
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.legend(frameon=False)
    return figure


def mark_crossings(axes: "Axes", curves: dict[tuple[str, str], Curve], task: str) -> None:
    """Disc: where a Transformer overtakes; ring if the end difference is not significant; the bar spans the seeds."""
    pairs = overtakings(curves)
    p_values = holm([pair.p for pair in pairs.values()])
    for ((name, model), pair), p in zip(pairs.items(), p_values, strict=True):
        if name != task or pair.of_mean in (None, pair.minutes[0]):
            continue
        height, color = pair.first.at(pair.of_mean).mean(), COLORS[model]
        seeds = [pair.minutes[-1] if each is None else each for each in pair.of_seeds]
        is_open = pair.verdict(p).startswith("open")
        axes.plot([min(seeds), max(seeds)], [height, height], color="black", linewidth=1.2, zorder=3)
        style = {"markerfacecolor": "white" if is_open else color, "markeredgecolor": "black", "zorder": 4}
        axes.plot(pair.of_mean, height, "o", markersize=9, **style)
        told = f"{pair.of_mean:.0f} min"
        axes.annotate(told, (pair.of_mean, height), xytext=(0, 16), textcoords="offset points", ha="center")
