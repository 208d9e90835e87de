"""The table and the picture of attention_scale.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from seeds import at_best_rate, best_rate, compare, relation, standard_error, values_of, with_error
from trials import COLOURS, provenance

from benchmarks.common.tables import markdown_table
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, SCALED, ADDITIVE = KINDS = ("dot product", "scaled dot product", "additive")
STATISTICS = {
    "variance": "variance of the scores",
    "entropy": "entropy of the weights, nats",
    "gradient": "norm of what softmax passes back of a gradient with variance 1, mean over the queries",
}


def figures_of(results: Sequence[dict], name: str, kind: str, key: str) -> np.ndarray:
    """A figure of the trials ``cost`` or ``statistics``, (seeds, number of d_k)"""
    return np.array([each[key] for each in values_of(results, kind, name=name)])


def verdict(results: Sequence[dict]) -> str:
    """What agrees with sec. 3.2.1 and what does not, by the losses at the smallest and the largest d_k."""
    settings = results[0]["settings"]
    (small, *_, large), few, many = settings["d_k"], settings["updates"][0], settings["updates"][-1]
    plain, scaled, additive = (at_best_rate(results, "loss", scores=kind, d_k=large, updates=few) for kind in KINDS)
    at_small = [at_best_rate(results, "loss", scores=kind, d_k=small, updates=few) for kind in (PLAIN, ADDITIVE)]
    answers = {1: "yes", 0: "not distinguishable", -1: "no, the opposite"}
    scale = compare(plain, scaled)
    claims = {
        f"at d_k = {large} additive attention learns better than dot products without the scale": answers[
            compare(plain, additive)
        ],
        "the scale helps there": answers[scale],
        f"at d_k = {small} the two are alike": "yes, not distinguishable" if compare(*at_small) == 0 else "no",
    }
    text = "; ".join(f"{claim}: {answer}" for claim, answer in claims.items())
    text = f"Of the claims of sec. 3.2.1, by the loss after {few} updates: {text}."
    if many > few:
        losses = (at_best_rate(results, "loss", scores=kind, d_k=large, updates=many) for kind in (PLAIN, SCALED))
        later = relation(*losses)
        text += f" After {many} updates the loss without the scale is {later} that with it at d_k = {large}."
    scaled, plain = (figures_of(results, "statistics", kind, "gradient").mean(axis=0) for kind in (SCALED, PLAIN))
    text += f" There softmax passes back {scaled[-1] / plain[-1]:.1f} times as much of a gradient with the scale"
    if any(less := [d_k for d_k, a, b in zip(settings["d_k"], scaled, plain, strict=True) if a < b]):
        text += f" (up to d_k = {max(less)} it passes back less)"
    if scale < 0:
        text += ", but Adam divides each gradient by its own size, so that small ones alone do not prevent learning"
    seconds, peak = (
        [figures_of(results, "cost", kind, key).mean(axis=0)[-1] for kind in (ADDITIVE, SCALED)]
        for key in ("seconds", "bytes")
    )
    return text + (
        f". Additive attention takes {seconds[0] / seconds[1]:.1f} times as long and {peak[0] / peak[1]:.1f} times the"
        " memory there."
    )


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    sizes = settings["d_k"]
    lines = ["# Dot-product and additive attention at growing d_k", "", verdict(results), ""]
    lines += [provenance("attention_scale", results), ""]
    for key, what in STATISTICS.items():
        columns = [figures_of(results, "statistics", kind, key) for kind in KINDS]
        rows = [[str(d_k), *(with_error(column[:, i], 2) for column in columns)] for i, d_k in enumerate(sizes)]
        lines += [f"Random queries and keys: {what}.", "", *markdown_table(["d_k", *KINDS], rows), ""]
    for updates in settings["updates"]:
        lines += [
            f"Associative recall, {settings['pairs']} pairs, after {updates} updates; loss in nats (chance:"
            f" {np.log(settings['values']):.2f}), accuracy, and the best learning rate, at which they are:",
            "",
        ]
        head = ["d_k", *(f"{kind}: {what}" for kind in KINDS for what in ("loss", "accuracy", "learning rate"))]
        lines += [*markdown_table(head, [recall_row(results, d_k, updates) for d_k in sizes]), ""]
    lines += [f"Forward and backward, batch 4, {settings['positions']} queries and keys:", ""]
    head = ["d_k", *(f"{kind}: {unit}" for unit in ("ms", "peak MB") for kind in (SCALED, ADDITIVE))]
    columns = [figures_of(results, "cost", kind, "seconds") * 1e3 for kind in (SCALED, ADDITIVE)]
    columns += [figures_of(results, "cost", kind, "bytes") / 1e6 for kind in (SCALED, ADDITIVE)]
    rows = [[str(d_k), *(with_error(column[:, i], 2) for column in columns)] for i, d_k in enumerate(sizes)]
    return "\n".join([*lines, *markdown_table(head, rows)]) + "\n"


def recall_row(results: Sequence[dict], d_k: int, updates: int) -> list[str]:
    """d_k; then of each kind the loss, the accuracy and the learning rate"""
    row, rates = [str(d_k)], results[0]["settings"]["learning_rates"]
    for kind in KINDS:
        chosen = {"scores": kind, "d_k": d_k, "updates": updates}
        loss, accuracy = (at_best_rate(results, key, **chosen) for key in ("loss", "accuracy"))
        row += [with_error(loss, 4), with_error(accuracy, 3), f"{rates[best_rate(results, **chosen)]:g}"]
    return row


def draw(results: Sequence[dict]) -> "Figure":
    """Six panels against d_k: the three statistics above; loss, time and memory below."""
    sizes, updates = np.array(results[0]["settings"]["d_k"]), results[0]["settings"]["updates"][0]
    figure = new_figure(12, 7)
    panels = figure.subplots(2, 3).ravel()
    columns = [
        ("statistics", "variance", 1, "variance of the scores"),
        ("statistics", "entropy", 1, "entropy of the weights, nats"),
        ("statistics", "gradient", 1, "gradient behind softmax"),
        ("learned", "loss", 1, f"loss after {updates} updates, nats"),
        ("cost", "seconds", 1e-3, "forward and backward, ms"),
        ("cost", "bytes", 1e6, "peak memory, MB"),
    ]
    for axes, (name, key, unit, label) in zip(panels, columns, strict=True):
        for kind, colour in zip(KINDS, COLOURS, strict=False):
            if name == "cost" and kind == PLAIN:
                continue  # the same products as with the scale
            if name == "learned":
                columns = [at_best_rate(results, key, scores=kind, d_k=d_k, updates=updates) for d_k in sizes]
                values = np.stack(columns, axis=1)
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
