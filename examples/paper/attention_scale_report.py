"""The table and the picture of attention_scale.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from table3_report import standard_error, with_error
from trials import COLOURS, compare, provenance, relation, table, values_of

from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, SCALED, ADDITIVE = KINDS = ("dot product", "scaled dot product", "additive")


def figures_of(results: Sequence[dict], name: str, kind: str, key: str) -> np.ndarray:
    """A figure of the trials ``cost`` or ``statistics``, (seeds, number of d_k)"""
    return np.array([each[key] for each in values_of(results, kind, name=name)])


def best_rate(results: Sequence[dict], kind: str, d_k: int) -> int:
    """Which of the learning rates has the lowest mean loss over the seeds."""
    return int(values_of(results, "loss", scores=kind, d_k=d_k).mean(axis=0).argmin())


def learned(results: Sequence[dict], key: str, kind: str, d_k: int) -> np.ndarray:
    """Loss or accuracy at the best learning rate, one value a seed."""
    return values_of(results, key, scores=kind, d_k=d_k)[:, best_rate(results, kind, d_k)]


def verdict(results: Sequence[dict]) -> str:
    """What agrees with sec. 3.2.1 and what does not, by the losses at the smallest and the largest d_k."""
    small, large = (results[0]["settings"]["d_k"][i] for i in (0, -1))
    at_large = {kind: learned(results, "loss", kind, large) for kind in KINDS}
    plain_small, additive_small = (learned(results, "loss", kind, small) for kind in (PLAIN, ADDITIVE))
    gradients = [figures_of(results, "statistics", kind, "gradient").mean(axis=0)[-1] for kind in (SCALED, PLAIN)]
    additive_wins = compare(at_large[PLAIN], at_large[ADDITIVE]) > 0
    scale_helps = compare(at_large[PLAIN], at_large[SCALED]) > 0
    claims = {
        f"at d_k = {large} attention with additive scores learns better than with dot products that are not scaled": (
            additive_wins
        ),
        "the scale helps there": scale_helps,
        f"at d_k = {small} the two do not differ": compare(plain_small, additive_small) == 0,
    }
    text = "; ".join(f"{claim}: {'yes' if holds else 'no'}" for claim, holds in claims.items())
    reason = f"the softmax passes back {gradients[0] / gradients[1]:.1f} times as much gradient with the scale"
    if not (additive_wins and scale_helps):
        reason += ", but Adam divides a gradient by its own size, so that small ones alone do not stop it"
    return (
        f"Of the claims of sec. 3.2.1, by the loss after equal updates: {text}. Without the scale it is"
        f" {relation(at_large[PLAIN], at_large[SCALED])} with it at d_k = {large}, where {reason}."
    )


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    sizes, rates = settings["d_k"], settings["learning_rates"]
    lines = ["# Dot-product and additive attention at growing d_k", "", verdict(results), ""]
    lines += [provenance("attention_scale", results), "", "Random queries and keys:", ""]
    keys = {"variance": "variance of the scores", "entropy": "entropy of the weights, nats", "gradient": "gradient"}
    head = ["d_k", *(f"{label}: {kind}" for label in keys.values() for kind in KINDS)]
    columns = [figures_of(results, "statistics", kind, key) for key in keys for kind in KINDS]
    rows = [[str(d_k), *(with_error(column[:, i], 2) for column in columns)] for i, d_k in enumerate(sizes)]
    lines += [*table(head, rows), ""]
    lines += [
        f"Associative recall, {settings['pairs']} pairs, after {settings['updates']} updates; loss in nats (without"
        f" knowledge: {np.log(settings['values']):.2f}), learning rate:",
        "",
    ]
    head = ["d_k", *(f"{kind}: {what}" for kind in KINDS for what in ("loss", "right", "rate"))]
    rows = [
        [str(d_k)]
        + [
            text
            for kind in KINDS
            for text in (
                with_error(learned(results, "loss", kind, d_k), 3),
                with_error(learned(results, "accuracy", kind, d_k), 3),
                f"{rates[best_rate(results, kind, d_k)]:g}",
            )
        ]
        for d_k in sizes
    ]
    lines += [*table(head, rows), "", f"Forward and backward, batch 4, {settings['positions']} queries and keys:", ""]
    head = ["d_k", *(f"{kind}: {unit}" for unit in ("ms", "peak MB") for kind in KINDS)]
    columns = [figures_of(results, "cost", kind, "seconds") * 1e3 for kind in KINDS]
    columns += [figures_of(results, "cost", kind, "bytes") / 1e6 for kind in KINDS]
    rows = [[str(d_k), *(with_error(column[:, i], 2) for column in columns)] for i, d_k in enumerate(sizes)]
    return "\n".join([*lines, *table(head, rows)]) + "\n"


def draw(results: Sequence[dict]) -> "Figure":
    """Six panels against d_k: the three statistics above; loss, time and memory below."""
    sizes = np.array(results[0]["settings"]["d_k"])
    figure = new_figure(12, 7)
    panels = figure.subplots(2, 3).ravel()
    columns = [
        ("statistics", "variance", 1, "variance of the scores"),
        ("statistics", "entropy", 1, "entropy of the weights, nats"),
        ("statistics", "gradient", 1, "gradient behind the softmax, norm"),
        ("learned", "loss", 1, "associative recall: loss, nats"),
        ("cost", "seconds", 1e-3, "forward and backward, ms"),
        ("cost", "bytes", 1e6, "peak memory, MB"),
    ]
    for axes, (name, key, unit, label) in zip(panels, columns, strict=True):
        for kind, colour in zip(KINDS, COLOURS, strict=False):
            if name == "learned":
                values = np.stack([learned(results, key, kind, d_k) for d_k in sizes], axis=1)
            else:
                values = figures_of(results, name, kind, key)
            errors = np.nan_to_num([standard_error(column) for column in (values / unit).T])
            axes.errorbar(sizes, values.mean(axis=0) / unit, errors, fmt="o-", color=colour, markersize=4, label=kind)
        axes.set_xscale("log", base=2)
        if key != "entropy":
            axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("d_k")
        axes.set_ylabel(label)
        axes.grid(True, color="#dddddd", linewidth=0.6)
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle("Sec. 3.2.1: attention scores at growing d_k")
    return figure
