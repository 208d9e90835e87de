"""The tables and the picture of recurrent.py."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from recurrent_tasks import updates_of
from seeds import compare, standard_error, values_of, with_error
from trials import COLOURS, provenance

from benchmarks.common.tables import markdown_table
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tasks_of(results: Sequence[dict]) -> list[str]:
    """The tasks that the Transformer has learned."""
    trained = {result["task"] for result in results if result.get("model") == "Transformer"}
    return [task for task in results[0]["settings"]["updates"] if task in trained]


def models_of(results: Sequence[dict], task: str) -> list[str]:
    """The models that have learned this task, in the order of the settings."""
    trained = {result["model"] for result in results if result.get("task") == task}
    return [model for model in results[0]["settings"]["models"] if model in trained]


def update_seconds(results: Sequence[dict], task: str, model: str) -> np.ndarray:
    """Processor seconds of an update, one value a seed."""
    return np.array([each["update_seconds"][task][model] for each in results if each["name"] == "speed"])


def group_names(results: Sequence[dict], task: str) -> list[str]:
    settings = results[0]["settings"]
    if task == "reverse":
        return [str(length) for length in settings["lengths"]]
    ends = settings["words"]
    return [f"{low + 1} to {high}" for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def verdict(results: Sequence[dict], task: str) -> str:
    """Whether the recurrent models are worse on the longest sentences, as in the paper, and what limits the answer."""
    others = models_of(results, task)[1:]
    if not others:
        return f"{task}: there is nothing to compare with."
    longest = {model: compare(bleu_of(results, task, model)[:, -1], bleu_of(results, task)[:, -1]) for model in others}
    return f"{task}: {agreement(longest)}{extreme_rates(results, task)} {times(results, task)}"


def bleu_of(results: Sequence[dict], task: str, model: str = "Transformer") -> np.ndarray:
    """(seeds, groups of lengths)."""
    return values_of(results, "bleu", task=task, model=model)


def comparison(results: Sequence[dict], task: str) -> list[str]:
    """A table of how BLEU of the recurrent models compares with that of the Transformer."""
    words, rows = {1: "higher", -1: "lower", 0: "not distinguishable"}, []
    for model in models_of(results, task)[1:]:
        pair = bleu_of(results, task, model), bleu_of(results, task)
        mean, longest, fall = (
            compare(*map(figure, pair))
            for figure in (lambda b: b.mean(1), lambda b: b[:, -1], lambda b: b[:, 0] - b[:, -1])
        )
        rows.append([model, words[mean], words[longest], words[fall]])
    head = ["BLEU beside the Transformer's", "mean of the groups", "longest sentences", "fall from shortest to longest"]
    return markdown_table(head, rows)


def agreement(longest: Mapping[str, int]) -> str:
    """longest: of each recurrent model 1 if its BLEU of the longest sentences is above the Transformer's, -1 below"""
    groups = {
        word: [model for model, sign in longest.items() if sign == wanted]
        for wanted, word in {-1: "worse", 0: "not distinguishable", 1: "better"}.items()
    }
    found = "; ".join(f"{word}: {listed(models)}" for word, models in groups.items() if models)
    if groups["better"]:
        conclusion = (
            "What is better does not agree with sec. 1 and 4 of the paper, perhaps because recurrence has the order of"
            " the words from the start, which attention must first learn in so short a training."
        )
    elif not groups["worse"]:
        conclusion = "That neither confirms nor contradicts sec. 1 and 4 of the paper."
    else:
        conclusion = f"That agrees {'in part ' if groups['not distinguishable'] else ''}with sec. 1 and 4 of the paper."
    return f"On the longest sentences, beside the Transformer, {found}. {conclusion}"


def extreme_rates(results: Sequence[dict], task: str) -> str:
    """Which models learned best with the lowest or the highest learning rate that was tried."""
    scales = results[0]["settings"]["lr_scales"]
    models = [
        model
        for model in models_of(results, task)
        if not {min(scales), max(scales)}.isdisjoint(values_of(results, "lr_scale", task=task, model=model))
    ]
    if not models:
        return ""
    return f" The lowest or highest learning rate tried was chosen for {listed(models)}: others may be better."


def listed(models: Sequence[str]) -> str:
    """Their names, which have commas of their own."""
    return ", ".join(f'"{model}"' for model in models)


def times(results: Sequence[dict], task: str) -> str:
    """How equal the times of the trainings are."""
    seconds = [
        update_seconds(results, task, model).mean() * updates_of(task, model, results[0]["settings"])
        for model in models_of(results, task)
    ]
    return f"The longest training took {max(seconds) / min(seconds) - 1:.0%} longer than the shortest."


def markdown(results: Sequence[dict]) -> str:
    shown = {key: value for key, value in results[0]["settings"].items() if key not in ("models", "shapes", "updates")}
    lines = ["# Recurrent models against the Transformer", ""]
    for task in tasks_of(results):
        lines += [verdict(results, task), ""]
    lines += [provenance("recurrent", [result | {"settings": shown} for result in results]), ""]
    lines += [
        "Time is processor time on one core: what an update takes, measured by itself, times the updates. Target"
        " positions include padding.",
        "",
    ]
    for task in tasks_of(results):
        lines += [f"## {task}", "", shapes_of(results, task), "", *training_table(results, task), ""]
        lines += ["BLEU against the length of the source:", ""]
        rows = []
        for model in models_of(results, task):
            rows.append([model, *(with_error(column, 1) for column in bleu_of(results, task, model).T)])
        lines += [*markdown_table(["model", *group_names(results, task)], rows), ""]
        if len(rows) > 1:
            lines += [*comparison(results, task), ""]
    return "\n".join(lines)


def shapes_of(results: Sequence[dict], task: str) -> str:
    """What the models look like, besides the width."""
    settings = results[0]["settings"]
    shape, *recurrent = settings["shapes"][task], *settings["models"].values()
    described = ", ".join(f"{key} {value}" for key, value in shape.items())
    layers = " or ".join(sorted({str(model["n_layers"]) for model in recurrent if model}))
    return f"The Transformer: {described}. The recurrent models: n_layers {layers}, the same dropout."


def training_table(results: Sequence[dict], task: str) -> list[str]:
    rows = []
    for model in models_of(results, task):
        chosen = {"task": task, "model": model}
        one = next(each for each in results if each.get("task") == task and each["model"] == model)
        seconds, updates = update_seconds(results, task, model), updates_of(task, model, results[0]["settings"])
        scales = ", ".join(f"{scale:g}" for scale in values_of(results, "lr_scale", **chosen))
        curves = values_of(results, "curve", **chosen)  # (seeds, validations, 2)
        before = np.array([np.interp(updates * 5 / 6, *curve.T) for curve in curves])
        whole = "exact" if task == "reverse" else "bleu_of_all"
        score = values_of(results, whole, **chosen)
        rows.append(
            [
                model,
                str(one["width"]),
                f"{one['parameters']:,}",
                with_error(one["positions"] / seconds, 0),
                f"{updates:,}",
                f"{updates * seconds.mean() / 60:.1f}",
                scales,
                with_error(curves[:, -1, 1], 3),
                with_error(before - curves[:, -1, 1], 3),
                with_error(100 * score.mean(axis=1), 1) if task == "reverse" else with_error(score, 1),
            ]
        )
    last = "exact match, %" if task == "reverse" else "BLEU"
    head = ["model", "width", "parameters", "target positions/s", "updates", "minutes"]
    head += ["lr_scale of each seed", "loss, nats/token", "its fall in the last sixth", last]
    return markdown_table(head, rows)


def draw(results: Sequence[dict]) -> "Figure":
    """Left BLEU against the length, right the validation loss against the time; one row a task."""
    tasks = tasks_of(results)
    figure = new_figure(12, 4.4 * len(tasks))
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    for task, (left, right) in zip(tasks, panels, strict=True):
        names = group_names(results, task)
        for model, colour in zip(models_of(results, task), COLOURS, strict=False):
            scores = bleu_of(results, task, model)
            errors = np.nan_to_num([standard_error(column) for column in scores.T])
            style = {"color": colour, "markersize": 4, "label": model}
            left.errorbar(range(len(names)), scores.mean(axis=0), errors, fmt="o-", **style)
            minutes = update_seconds(results, task, model).mean() / 60
            curves = values_of(results, "curve", task=task, model=model)  # (seeds, validations, 2)
            right.plot(curves[0, :, 0] * minutes, curves[:, :, 1].mean(axis=0), "o-", **style)
        left.set_xticks(range(len(names)), names)
        unit = "symbols" if task == "reverse" else "words"
        left.set(title=task, ylabel="BLEU", xlabel=f"length of the source, {unit}", ylim=(0, None))
        right.set(title=task, ylabel="validation loss, nats per token", xlabel="minutes on one core")
        for axes in (left, right):
            axes.grid(True, color="#dddddd", linewidth=0.6)
        left.legend(frameon=False, fontsize=8)
    return figure
