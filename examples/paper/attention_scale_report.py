"""The page of attention_scale.py."""

from collections.abc import Sequence

import numpy as np

from examples.paper.seeds import (
    FISHER,
    SOLVED,
    VERDICTS,
    at_best_rate,
    best_rate,
    compare_solved,
    n_solved,
    values_of,
    with_error,
)
from examples.paper.trials import provenance
from examples.report import markdown_table, page

PLAIN, SCALED, ADDITIVE = KINDS = ("dot product", "scaled dot product", "additive")
STATISTICS = {
    "variance": "variance of the scores",
    "entropy": "entropy of the weights, nats",
    "gradient": "norm of what softmax passes back of a gradient with variance 1, mean over the queries",
}


def figures_of(results: Sequence[dict], name: str, kind: str, key: str) -> np.ndarray:
    """A figure of the trials ``cost`` or ``statistics``, (seeds, number of d_k)"""
    return np.array([each[key] for each in values_of(results, kind, name=name)])


def verdicts(results: Sequence[dict]) -> list[list[str]]:
    """Claims of sec. 3.2.1, what was measured at the smallest and the largest d_k, verdicts."""
    settings = results[0]["settings"]
    (small, *_, large), few, many = settings["d_k"], settings["updates"][0], settings["updates"][-1]
    claims = [
        ("additive attention learns better than dot products without the scale", ADDITIVE, PLAIN, large, few),
        ("the scale helps", SCALED, PLAIN, large, few),
        ("the scale helps", SCALED, PLAIN, large, many),
        ("additive attention and dot products without the scale are alike", ADDITIVE, PLAIN, small, few),
    ]
    answers, rows = {1: "agrees", 0: "open: not told apart", -1: "does not agree"}, []
    for claim, *kinds, d_k, updates in dict.fromkeys(claims):
        pair = [at_best_rate(results, "accuracy", scores=kind, d_k=d_k, updates=updates) for kind in kinds]
        solved = ", ".join(f"{kind} {n_solved(each)}" for kind, each in zip(kinds, pair, strict=True))
        sign = compare_solved(*pair)
        verdict = ("does not agree" if sign else answers[0]) if "alike" in claim else answers[sign]
        rows.append([f"d_k = {d_k}: {claim}", f"solved seeds after {updates} updates: {solved}", verdict])
    scaled, plain = (figures_of(results, "statistics", kind, "gradient").mean(axis=0) for kind in (SCALED, PLAIN))
    more = [d_k for d_k, a, b in zip(settings["d_k"], scaled, plain, strict=True) if a > b]
    found = f"with the scale {scaled[-1] / plain[-1]:.1f} times as much comes back at d_k = {large}"
    where = f"agrees at d_k = {', '.join(map(str, more))} only" if more else "does not agree"
    rows.append(["without the scale the softmax passes back little of a gradient", found, where])
    seconds, peak = (
        [figures_of(results, "cost", kind, key).mean(axis=0)[-1] for kind in (ADDITIVE, SCALED)]
        for key in ("seconds", "bytes")
    )
    costs = f"additive takes {seconds[0] / seconds[1]:.1f} times as long and {peak[0] / peak[1]:.1f} times the memory"
    agrees = "agrees" if min(seconds[0] / seconds[1], peak[0] / peak[1]) > 1 else "does not agree"
    rows.append([f"d_k = {large}: dot products are faster and need less memory", costs, f"{agrees}, for this code"])
    return rows


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    blocks = [
        "# Dot-product and additive attention at growing d_k",
        markdown_table(VERDICTS, verdicts(results)),
        f"A seed has solved its task if at least {SOLVED:.0%} of its answers are right.",
        provenance("attention_scale", results, FISHER),
    ]
    for key, what in STATISTICS.items():
        columns = [figures_of(results, "statistics", kind, key) for kind in KINDS]
        blocks += [f"Random queries and keys: {what}.", against_d_k(results, KINDS, columns)]
    for updates in settings["updates"]:
        blocks += [
            f"Associative recall, {settings['pairs']} pairs, after {updates} updates; solved seeds, median of the loss"
            f" in nats (chance: {np.log(settings['values']):.2f}), and the learning rate with the lowest mean loss:",
            markdown_table(
                ["d_k", *(f"{kind}: {what}" for kind in KINDS for what in ("solved", "loss", "learning rate"))],
                [recall_row(results, d_k, updates) for d_k in settings["d_k"]],
            ),
        ]
    blocks.append(f"Forward and backward, batch 4, {settings['positions']} queries and keys:")
    units = {"ms": ("seconds", 1e3), "peak MB": ("bytes", 1e-6)}
    head = [f"{kind}: {unit}" for unit in units for kind in (SCALED, ADDITIVE)]
    columns = [
        scale * figures_of(results, "cost", kind, key) for key, scale in units.values() for kind in (SCALED, ADDITIVE)
    ]
    return page(*blocks, against_d_k(results, head, columns))


def against_d_k(results: Sequence[dict], head: Sequence[str], columns: Sequence[np.ndarray]) -> str:
    """A table with a row for each d_k.   columns: (seeds, number of d_k) each"""
    sizes = results[0]["settings"]["d_k"]
    rows = [[str(d_k), *(with_error(column[:, i], 2) for column in columns)] for i, d_k in enumerate(sizes)]
    return markdown_table(["d_k", *head], rows)


def recall_row(results: Sequence[dict], d_k: int, updates: int) -> list[str]:
    """d_k; then of each kind the solved seeds, the loss and the learning rate"""
    row, rates = [str(d_k)], results[0]["settings"]["learning_rates"]
    for kind in KINDS:
        chosen = {"scores": kind, "d_k": d_k, "updates": updates}
        loss, accuracy = (at_best_rate(results, key, **chosen) for key in ("loss", "accuracy"))
        row += [n_solved(accuracy), f"{np.median(loss):.4f}", f"{rates[best_rate(results, **chosen)]:g}"]
    return row
