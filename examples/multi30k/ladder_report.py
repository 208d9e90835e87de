"""The ladder as a table and as a picture: what each rung adds, with its error, and what has not been measured."""

import math
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from examples.multi30k.rungs import Step, rungs
from examples.paper.seeds import STUDENT, differences, holm, paired, standard_error, tested_by, values_of, with_error
from examples.report import all_machines, markdown_table, page
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ["rung", "changed", "seeds", "BLEU", "adds", "p, corrected", "lower-cased", "nats/token"]
NOT_TRANSLATED = "The test set has not been translated."


def measured(results: Sequence[dict], steps: Sequence[Step]) -> list[dict]:
    """One row for each step and seed that has a result, by the label of the step."""
    return [
        {
            "name": step.label,
            "seed": result["seed"],
            "bleu": result["val"][str(step.checkpoints)]["bleu"],
            "lower": result["val"][str(step.checkpoints)]["lower"],
            "nll": result["nll"],
        }
        for step in steps
        for result in results
        if result["name"] == step.run
    ]


def markdown(results: Sequence[dict], steps: Sequence[Step], arguments: Namespace, test: str) -> str:
    """The page.   test: a sentence about the test set"""
    rows, first = measured(results, steps), results[0]
    processors, numpys, commits = (all_machines(results, fact) for fact in ("processor", "NumPy", "commit"))
    return page(
        "# What later tricks are worth on the model of 2017",
        "Multi30k, English to German, text alone, one model of"
        f" {first['parameters'] / 1e6:.1f} M parameters. Each rung is the one below it with one setting changed. All"
        " choices are made on the validation set, which also gives the scores. BLEU is sacreBLEU, cased"
        f" (`{first['val']['1']['signature']}`). Lower-cased BLEU is that of Moses' words in lower case, as in papers."
        " Nats per token are those of the last checkpoint.",
        markdown_table(HEAD, table(rows, steps)),
        f"![BLEU of every rung]({arguments.results.stem}.png)",
        missing(rows, steps, arguments),
        test,
        f"`python -m examples.multi30k.ladder`; ± is the standard error over seeds, and {tested_by(STUDENT)}."
        f" {processors}, NumPy {numpys}, commit {commits}.",
    )


def with_results(rows: Sequence[dict], steps: Sequence[Step]) -> list[Step]:
    names = {row["name"] for row in rows}
    return [step for step in steps if step.label in names]


def not_kept(steps: Sequence[Step]) -> set[str]:
    """The values that were tried but on which no later rung is built."""
    below, kept, label = {step.label: step.below for step in steps}, set(), steps[-1].below
    while label:
        kept.add(label)
        label = below[label]
    return {step.label for step in steps if step.rung != steps[-1].rung} - kept


def table(rows: Sequence[dict], steps: Sequence[Step]) -> list[list[str]]:
    shown, passed = with_results(rows, steps), not_kept(steps)
    gains = [differences(rows, "bleu", step.label, step.below) for step in shown]
    p_values = holm([paired(gain)[1] if len(gain) else math.nan for gain in gains])
    return [
        [f"{step.label} (not kept)" if step.label in passed else step.label, *cells(rows, step, gain, p)]
        for step, gain, p in zip(shown, gains, p_values, strict=True)
    ]


def cells(rows: Sequence[dict], step: Step, gain: np.ndarray, p: float) -> list[str]:
    """All cells of a row but the first.   gain: BLEU above the rung below, one value a seed"""
    bleu, lower, nll = (values_of(rows, key, name=step.label) for key in ("bleu", "lower", "nll"))
    changed = ", ".join(f"`{key} = {value}`" for key, value in step.changes.items()) or "[the recipe](multi30k.toml)"
    adds = [with_error(gain, 2) if len(gain) else "", "" if math.isnan(p) else f"{p:.2g}"]
    return [changed, str(len(bleu)), with_error(bleu, 2), *adds, with_error(lower, 2), with_error(nll, 3)]


def missing(rows: Sequence[dict], steps: Sequence[Step], arguments: Namespace) -> str:
    """A sentence about what has not been measured; "" if all has."""
    done = {(row["name"], row["seed"]) for row in rows}
    lacking = {
        step.label: [str(seed) for seed in range(1, arguments.seeds + 1) if (step.label, seed) not in done]
        for step in steps
    }
    known = {step.rung for step in steps}
    parts = [f"{label} (seed {', '.join(seeds)})" for label, seeds in lacking.items() if seeds]
    parts += [rung for rung in rungs(arguments.updates) if rung not in known]
    return f"Not measured yet: {', '.join(parts)}." if parts else ""


def test_scores(test: dict) -> str:
    """A sentence about the test set, from what ``--test`` has written."""
    bleu, lower = (np.array([each[key] for each in test["scores"]]) for key in ("bleu", "lower"))
    return (
        f"Test set (test_2016_flickr), translated once, with {test['rung']}: {with_error(bleu, 2)}, lower-cased"
        f" {with_error(lower, 2)} ({len(bleu)} seeds: {', '.join(f'{each:.2f}' for each in bleu)})."
    )


def draw(results: Sequence[dict], steps: Sequence[Step]) -> "Figure":
    """The rungs from bottom to top, with BLEU and its standard error on the x axis; the seeds as small dots, and values
    that were tried and not kept in gray. A rung with a single seed, which has no error, is an empty circle."""
    rows, passed = measured(results, steps), not_kept(steps)
    steps = with_results(rows, steps)
    figure = new_figure(7, 0.6 + 0.45 * len(steps))
    axes = figure.subplots()
    for height, step in enumerate(steps):
        bleu = values_of(rows, "bleu", name=step.label)
        color, error = "#999999" if step.label in passed else "#0072b2", standard_error(bleu)
        style = {"fmt": "o", "capsize": 3, "color": color, "markerfacecolor": "none" if math.isnan(error) else color}
        axes.plot(bleu, [height - 0.25] * len(bleu), ".", color=color, markersize=4)
        axes.errorbar(bleu.mean(), height, xerr=None if math.isnan(error) else error, **style)
    axes.set_yticks(range(len(steps)), [step.label for step in steps])
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.08, y=0.1)
    axes.set_xlabel("sacreBLEU on the validation set of Multi30k, English to German")
    title = "What later tricks are worth on the model of 2017\n"
    axes.set_title(f"{title}bars: standard error; small dots: seeds; gray: tried and not kept", fontsize=10)
    return figure
