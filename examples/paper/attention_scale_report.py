"""The page of attention_scale.py."""

from collections.abc import Sequence

import numpy as np

from examples.paper.seeds import (
    LEVEL,
    MCNEMAR,
    NOT_ALIKE,
    SOLVED,
    VERDICTS,
    at_best_rate,
    best_rate,
    holm,
    n_solved,
    p_alike,
    p_of_signs,
    paired,
    signs,
    solved,
    solved_share,
    values_of,
    with_error,
)
from examples.paper.trials import provenance
from examples.report import markdown_table, page

PLAIN, SCALED, ADDITIVE = KINDS = ("dot product", "scaled dot product", "additive")
ALIKE = 0.1
"""Kinds whose losses differ by less than this share of the loss of uniform guessing are equivalent."""
STATISTICS = {
    "variance": "variance of the scores",
    "entropy": "entropy of the weights, nats",
    "gradient": "norm of the gradient that the softmax passes back if it receives one of variance 1, mean over queries",
}


def figures_of(results: Sequence[dict], name: str, kind: str, key: str) -> np.ndarray:
    """A figure of the trials ``cost`` or ``statistics``, (seeds, number of d_k)"""
    return np.array([each[key] for each in values_of(results, kind, name=name)])


def verdicts(results: Sequence[dict]) -> list[list[str]]:
    """Claims of sec. 3.2.1, what was measured at the smallest and the largest d_k, verdicts."""
    settings = results[0]["settings"]
    (small, *_, large), few, many = settings["d_k"], settings["updates"][0], settings["updates"][-1]
    claims = dict.fromkeys(
        [
            ("additive attention learns better than dot products without the scale", ADDITIVE, large, few),
            ("the scale helps", SCALED, large, few),
            ("the scale helps", SCALED, large, many),
        ]
    )
    tests = []
    for claim, kind, d_k, updates in claims:
        ours, plain = (learned(results, "accuracy", each, d_k, updates) for each in (kind, PLAIN))
        found = f"seeds that solved it after {updates} updates: {kind} {n_solved(ours)}, {PLAIN} {n_solved(plain)}"
        differences = solved(ours) - solved(plain)
        yes = "agrees" if differences.mean() > 0 else "does not agree"
        no = "open: not significantly different"
        tests.append((f"d_k = {d_k}: {claim}", found, p_of_signs(differences), yes, no))
    bound = ALIKE * np.log(settings["values"])
    apart = learned(results, "loss", ADDITIVE, small, few) - learned(results, "loss", PLAIN, small, few)
    claim = f"d_k = {small}: additive attention and dot products without the scale are equivalent (±{bound:.2f} nats)"
    found = f"loss after {few} updates: additive {with_error(apart, 4)} nats higher"
    tests.append((claim, found, p_alike(apart, bound), "agrees", NOT_ALIKE))
    corrected = holm([p for _, _, p, _, _ in tests])
    rows = [
        [claim, found, f"{yes if p < LEVEL else no} (p = {p:.2g})"]
        for (claim, found, _, yes, no), p in zip(tests, corrected, strict=True)
    ]
    return [*rows, gradient_verdict(results), cost_verdict(results)]


def learned(results: Sequence[dict], key: str, kind: str, d_k: int, updates: int) -> np.ndarray:
    """Loss or accuracy of associative recall at the best rate, one value per seed."""
    return at_best_rate(results, key, scores=kind, d_k=d_k, updates=updates)


def gradient_verdict(results: Sequence[dict]) -> list[str]:
    """At which d_k the softmax passes back more with the scale, by t-tests with Holm's correction for all d_k."""
    sizes = results[0]["settings"]["d_k"]
    scaled, plain = (figures_of(results, "statistics", kind, "gradient") for kind in (SCALED, PLAIN))
    apart = list((scaled - plain).T)
    told = signs(apart, [paired(each)[1] for each in apart])
    more = [str(d_k) for d_k, sign in zip(sizes, told, strict=True) if sign > 0]
    ratio = scaled[:, -1].mean() / plain[:, -1].mean()
    only = " only" if len(more) < len(sizes) else ""
    where = f"agrees at d_k = {', '.join(more)}{only}" if more else "open: not significantly different"
    found = f"with the scale {ratio:.1f} times as much is passed back at d_k = {sizes[-1]}"
    return ["without the scale the softmax passes back small gradients", found, where]


def cost_verdict(results: Sequence[dict]) -> list[str]:
    """How much more time and memory additive attention takes at the largest d_k."""
    more = [
        np.divide(*(figures_of(results, "cost", kind, key).mean(axis=0)[-1] for kind in (ADDITIVE, SCALED)))
        for key in ("seconds", "bytes")
    ]
    claim = f"d_k = {results[0]['settings']['d_k'][-1]}: dot products are faster and need less memory"
    found = f"additive takes {more[0]:.1f} times as long and {more[1]:.1f} times the memory"
    return [claim, found, f"{'agrees' if min(more) > 1 else 'does not agree'}, for this code"]


def markdown(results: Sequence[dict]) -> str:
    settings, n = results[0]["settings"], len({result["seed"] for result in results})
    blocks = [
        "# Dot-product and additive attention at growing d_k",
        markdown_table(VERDICTS, verdicts(results)),
        f"A seed has solved its task if at least {SOLVED:.0%} of its answers are right; the lowest p-value that {n}"
        f" seeds can give is {2 ** (1 - n):.2g} before the correction. Losses are equivalent if two one-sided t-tests"
        f" show that they differ by less than {ALIKE:.0%} of the loss of uniform guessing. Gradients are compared at"
        " each d_k by t-tests, paired by seed.",
        provenance("attention_scale", results, MCNEMAR),
    ]
    for key, what in STATISTICS.items():
        columns = [figures_of(results, "statistics", kind, key) for kind in KINDS]
        blocks += [f"Random queries and keys: {what}.", against_d_k(results, KINDS, columns)]
    for updates in settings["updates"]:
        blocks += [
            f"Associative recall, {settings['pairs']} pairs, after {updates} updates: solved seeds with the exact 95 %"
            " confidence interval of their share, the median loss in nats (uniform guessing:"
            f" {np.log(settings['values']):.2f}), and the learning rate with the lowest mean loss.",
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
        loss, accuracy = (learned(results, key, kind, d_k, updates) for key in ("loss", "accuracy"))
        rate = rates[best_rate(results, scores=kind, d_k=d_k, updates=updates)]
        row += [solved_share(accuracy), f"{np.median(loss):.4f}", f"{rate:g}"]
    return row
