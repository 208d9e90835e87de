"""The page of recurrent.py."""

from collections.abc import Sequence

import numpy as np

from examples.paper.recurrent_tasks import updates_of
from examples.paper.seeds import STUDENT, at_the_edge, paired, signs, values_of, with_error
from examples.paper.trials import provenance
from examples.report import markdown_table, page


def tasks_of(results: Sequence[dict]) -> list[str]:
    """The tasks that the Transformer has learned."""
    trained = {result["task"] for result in results if result.get("model") == "Transformer"}
    return [task for task in results[0]["settings"]["updates"] if task in trained]


def models_of(results: Sequence[dict], task: str) -> list[str]:
    """The models that have learned this task, in the order of the settings."""
    trained = {result["model"] for result in results if result.get("task") == task}
    return [model for model in results[0]["settings"]["models"] if model in trained]


def update_seconds(results: Sequence[dict], task: str, model: str) -> np.ndarray:
    """Processor seconds per update, one value per seed."""
    return np.array([each["update_seconds"][task][model] for each in results if each["name"] == "speed"])


def group_names(results: Sequence[dict], task: str) -> list[str]:
    settings = results[0]["settings"]
    if task == "reverse":
        return [str(length) for length in settings["lengths"]]
    ends = settings["words"]
    return [f"{low + 1} to {high}" for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def scored_text(results: Sequence[dict]) -> list[str]:
    """The parts of Multi30k that were translated; the test sets in results that predate this setting."""
    return results[0]["settings"].get("scored", ["test_2016_flickr", "test_2017_flickr"])


def bleu_of(results: Sequence[dict], task: str, model: str = "Transformer") -> np.ndarray:
    """(seeds, groups of lengths)."""
    return values_of(results, "bleu", task=task, model=model)


def verdicts(results: Sequence[dict], task: str) -> str:
    """A table of how BLEU of the recurrent models compares with that of the Transformer, and of what that says."""
    words = {1: "higher", -1: "lower", 0: "not significantly different"}
    says = {-1: "agrees", 0: "open: not significantly different", 1: "open: ahead of the Transformer at this budget"}
    models, transformer = models_of(results, task)[1:], bleu_of(results, task)
    apart = [bleu_of(results, task, model) - transformer for model in models]  # (seeds, groups) each
    figures = [figure for each in apart for figure in (each.mean(axis=1), each[:, -1], each[:, 0] - each[:, -1])]
    told = np.reshape(signs(figures, [paired(figure)[1] for figure in figures]), (-1, 3)).tolist()
    rows = []
    for model, (mean, longest, fall) in zip(models, told, strict=True):
        ours, theirs = (with_error(bleu[:, -1], 1) for bleu in (bleu_of(results, task, model), transformer))
        rows.append([model, words[mean], f"{words[longest]}: {ours} against {theirs}", words[fall], says[longest]])
    head = [f"{task}: BLEU compared with the Transformer's", "mean of the length groups", "longest sentences"]
    head += ["fall from shortest to longest", "sec. 1 and 4: recurrence is worse on the longest sentences"]
    return markdown_table(head, rows)


def limits(results: Sequence[dict], task: str) -> str:
    """What the verdicts depend on besides the models."""
    settings, model = results[0]["settings"], models_of(results, task)[0]
    norm = settings["shapes"][task].get("norm", "post")
    n_lengths = max(settings["tokens"][task] // settings["micro_batch"], 1)
    return (
        "This is one budget and one recipe; [crossover.md](crossover.md) has scores against minutes."
        f" The Transformer is {norm}-norm, and its loss still falls by"
        f" {last_fall(results, task, model).mean():.3f} nats in the last sixth of the training. Batches per update:"
        f" {n_lengths}, each with sentences of about equal length."
        f" {' '.join(filter(None, (extreme_rates(results, task), times(results, task))))}"
    )


def extreme_rates(results: Sequence[dict], task: str) -> str:
    """Which models learned best with the lowest or the highest learning rate that was tried."""
    tried = results[0]["settings"]["lr_scales"]
    chosen = {model: values_of(results, "lr_scale", task=task, model=model) for model in models_of(results, task)}
    return at_the_edge([model for model, scales in chosen.items() if not {min(tried), max(tried)}.isdisjoint(scales)])


def times(results: Sequence[dict], task: str) -> str:
    """How far the training times differ."""
    seconds = [
        update_seconds(results, task, model).mean() * updates_of(task, model, results[0]["settings"])
        for model in models_of(results, task)
    ]
    return f"The longest training took {max(seconds) / min(seconds) - 1:.0%} longer than the shortest."


def markdown(results: Sequence[dict]) -> str:
    blocks = ["# Recurrent models against the Transformer"]
    for task in tasks_of(results):
        if len(models_of(results, task)) > 1:
            blocks += [verdicts(results, task), limits(results, task)]
    blocks += [
        provenance("recurrent", results, STUDENT, ("models", "shapes", "updates")),
        "Time is processor time on one core: the time per update, measured separately, times the number of updates."
        f" Target positions include padding. BLEU of Multi30k is measured on {' and '.join(scored_text(results))}.",
    ]
    for task in tasks_of(results):
        rows = [
            [model, *(with_error(column, 1) for column in bleu_of(results, task, model).T)]
            for model in models_of(results, task)
        ]
        blocks += [
            f"## {task}",
            shapes_of(results, task),
            training_table(results, task),
            "BLEU against the length of the source:",
            markdown_table(["model", *group_names(results, task)], rows),
        ]
    return page(*blocks)


def shapes_of(results: Sequence[dict], task: str) -> str:
    """The shapes of the models, apart from the width."""
    settings = results[0]["settings"]
    shape, *recurrent = settings["shapes"][task], *settings["models"].values()
    described = ", ".join(f"{key} {value}" for key, value in shape.items())
    layers = " or ".join(sorted({str(model["n_layers"]) for model in recurrent if model}))
    return f"The Transformer: {described}. The recurrent models: n_layers {layers}, the same dropout rate."


def last_fall(results: Sequence[dict], task: str, model: str) -> np.ndarray:
    """How far the validation loss falls in the last sixth of the training, one value per seed."""
    curves = values_of(results, "curve", task=task, model=model)  # (seeds, validations, 2)
    updates = updates_of(task, model, results[0]["settings"])
    return np.array([np.interp(updates * 5 / 6, *curve.T) - curve[-1, 1] for curve in curves])


def training_table(results: Sequence[dict], task: str) -> str:
    rows = []
    for model in models_of(results, task):
        chosen = {"task": task, "model": model}
        one = next(each for each in results if each.get("task") == task and each["model"] == model)
        seconds, updates = update_seconds(results, task, model), updates_of(task, model, results[0]["settings"])
        scales = ", ".join(f"{scale:g}" for scale in values_of(results, "lr_scale", **chosen))
        curves = values_of(results, "curve", **chosen)  # (seeds, validations, 2)
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
                with_error(last_fall(results, task, model), 3),
                with_error(100 * score.mean(axis=1), 1) if task == "reverse" else with_error(score, 1),
            ]
        )
    last = "exact match, %" if task == "reverse" else "BLEU"
    head = ["model", "width", "parameters", "target positions/s", "updates", "minutes"]
    head += ["lr_scale of each seed", "loss, nats/token", "fall in the last sixth", last]
    return markdown_table(head, rows)
