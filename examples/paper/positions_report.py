"""The table and the picture of positions.py, and the distances between sinusoids."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from seeds import compare, relation, standard_error, values_of, with_error
from trials import COLOURS, provenance

from benchmarks.common.tables import markdown_table
from minitransformer.figures.canvas import new_figure
from minitransformer.nn.positions import sinusoids

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_BASE = 10_000
N_POSITIONS, D_MODEL = 5000, 512
"""Of the distances: the paper's d_model, and the length to which its authors' successors tabulate positions."""


def distances(base: float, n: int = N_POSITIONS, d_model: int = D_MODEL) -> np.ndarray:
    """||PE(pos + k) - PE(pos)|| for k = 0..n-1, whatever pos is: a shift is a rotation."""
    vectors = sinusoids(0, n, d_model, base)
    return np.linalg.norm(vectors - vectors[0], axis=1)


def cosines(base: float, n: int = N_POSITIONS, d_model: int = D_MODEL) -> np.ndarray:
    """The cosine between the vectors of two positions k = 0..n-1 apart; all vectors have norm sqrt(d_model / 2)."""
    vectors = sinusoids(0, n, d_model, base)
    return vectors @ vectors[0] / (d_model / 2)


def lengths_seen(results: Sequence[dict]) -> np.ndarray:
    """Which of the tested lengths are no longer than those of training."""
    settings = results[0]["settings"]
    return np.array(settings["tested"]) <= settings["longest"]


def mean_score(results: Sequence[dict], key: str, base: int | None, lengths: np.ndarray) -> np.ndarray:
    """Mean over some of the tested lengths, one value a seed."""
    return values_of(results, key, base=base)[:, lengths].mean(axis=1)


def tokens_right(results: Sequence[dict], base: int | None) -> np.ndarray:
    """How many tokens of a sequence are right, the end mark counted, for each tested length, (seeds, lengths)."""
    return values_of(results, "tokens", base=base) * (np.array(results[0]["settings"]["tested"]) + 1)


def verdict_on_learned_positions(results: Sequence[dict]) -> str:
    """Sinusoids of base 10000 against learned positions, on lengths seen in training and on longer ones."""
    settings, seen = results[0]["settings"], lengths_seen(results)
    near = [mean_score(results, "tokens", base, seen) for base in (PAPER_BASE, None)]
    as_in_the_paper = {
        0: "as in the paper's Table 3, row E",
        1: "unlike in the paper's Table 3, row E, perhaps because late positions are learned from few sequences",
        -1: "unlike in the paper's Table 3, row E",
    }[compare(*near)]
    trained, longest = settings["longest"], settings["tested"][-1]
    ours, learned = (tokens_right(results, base)[:, -1] for base in (PAPER_BASE, None))
    seen_and_chance = trained + 1 + (longest - trained) / settings["symbols"]
    extrapolates = {
        1: "more than {}, which supports the hope of sec. 3.5 that sinusoids extrapolate",
        0: "not distinguishable from {}: the extrapolation that sec. 3.5 hopes for is not seen",
        -1: "fewer than {}: the extrapolation that sec. 3.5 hopes for is not seen",
    }[compare(ours, np.full(2, seen_and_chance))].format(f"the {seen_and_chance:.1f} of the positions seen and chance")
    return (
        f"Up to the training length of {trained} the accuracy with sinusoids is {relation(*near)} that with learned"
        f" positions ({as_in_the_paper}). Training has shown {trained + 1} positions, the end mark's among them: of the"
        f" {longest + 1} tokens of sequences of {longest} symbols {ours.mean():.1f} are right with sinusoids and"
        f" {learned.mean():.1f} with learned positions. The former are {extrapolates}."
    )


def verdict_on_bases(results: Sequence[dict]) -> str:
    """The paper's base against the one with the lowest loss on lengths seen in training."""
    settings = results[0]["settings"]
    nlls = {base: mean_score(results, "nll", base, lengths_seen(results)) for base in settings["bases"]}
    best = min(nlls, key=lambda base: nlls[base].mean())
    if best == PAPER_BASE:
        return "The loss with the paper's base 10000 is the lowest on average of all bases."
    than = relation(nlls[PAPER_BASE], nlls[best])
    text = f"The loss with the paper's base 10000 is {than} that of the best base, {best}"
    if best < PAPER_BASE and compare(nlls[PAPER_BASE], nlls[best]) > 0:
        ours, papers = (distances(base, 2, settings["d_model"])[1] for base in (best, PAPER_BASE))
        text += (
            f", perhaps because its neighbours are {ours:.1f} apart instead of {papers:.1f}, and the slow components"
            " that a larger base adds are of use in longer sequences only"
        )
    return text + "."


def markdown(results: Sequence[dict]) -> str:
    settings, seen = results[0]["settings"], lengths_seen(results)
    bases = [None, *settings["bases"]]
    verdict = f"{verdict_on_learned_positions(results)} {verdict_on_bases(results)}"
    lines = ["# Sinusoids, learned positions, and the base 10000", "", verdict, ""]
    lines += [provenance("positions", results), ""]
    lines += [
        "Accuracy (share of tokens predicted right, the end mark included, given the right tokens before) against the"
        f" length; trained on lengths 1 to {settings['longest']}:",
        "",
    ]
    head = ["positions", *(str(length) for length in settings["tested"])]
    rows = [
        [label(base), *(with_error(column, 2) for column in values_of(results, "tokens", base=base).T)]
        for base in bases
    ]
    lines += [*markdown_table(head, rows), ""]
    lines += [
        "Mean over the lengths seen in training, tokens right at the greatest length, and the vectors themselves, for"
        f" d_model = {D_MODEL} and positions 0 to {N_POSITIONS - 1}:",
        "",
    ]
    longest = settings["tested"][-1]
    head = ["positions", "nats per token", "whole sequences right", f"tokens right of {longest + 1}"]
    head += ["distance of neighbours", "cosine of neighbours", "smallest distance of any two", "at offset"]
    rows = []
    for base in bases:
        means = [
            with_error(mean_score(results, key, base, seen), digits) for key, digits in (("nll", 4), ("sequences", 3))
        ]
        row = [label(base), *means, with_error(tokens_right(results, base)[:, -1], 1)]
        rows.append(row + (["", "", "", ""] if base is None else geometry(base)))
    return "\n".join([*lines, *markdown_table(head, rows)]) + "\n"


def geometry(base: int) -> list[str]:
    """The four last columns of the table."""
    apart = distances(base)
    nearest = 1 + int(apart[1:].argmin())
    return [f"{apart[1]:.3f}", f"{cosines(base, 2)[1]:.4f}", f"{apart[nearest]:.3f}", str(nearest)]


def label(base: int | None) -> str:
    return "learned" if base is None else f"base {base:,}"


def draw(results: Sequence[dict]) -> "Figure":
    """Tokens right against length, with the positions seen; cosine against distance; neighbours and loss."""
    settings, figure = results[0]["settings"], new_figure(15, 4.5)
    left, middle, right = figure.subplots(1, 3)
    colours = dict(zip([None, *settings["bases"]], COLOURS, strict=False))
    for base, colour in colours.items():
        columns = tokens_right(results, base).T
        errors = np.nan_to_num([standard_error(column) for column in columns])
        style = {"color": colour, "markersize": 4, "label": label(base)}
        left.errorbar(settings["tested"], columns.mean(axis=1), errors, fmt="s--" if base is None else "o-", **style)
        if base is not None:
            middle.semilogx(np.arange(1, N_POSITIONS), cosines(base)[1:], color=colour, linewidth=1, label=label(base))
    tested = np.array(settings["tested"])
    left.plot(tested, tested + 1, color="#999999", linewidth=0.8, label="all tokens")
    left.axhline(settings["longest"] + 1, color="#999999", linestyle=":", label="positions seen in training")
    left.set(xlabel="length", ylabel="tokens of a sequence predicted right")
    left.legend(frameon=False, fontsize=8)
    middle.set(xlabel="distance of two positions", ylabel=f"cosine of their vectors, d_model = {D_MODEL}")
    columns = [mean_score(results, "nll", base, lengths_seen(results)) for base in settings["bases"]]
    errors = np.nan_to_num([standard_error(column) for column in columns])
    means = [column.mean() for column in columns]
    right.errorbar(settings["bases"], means, errors, fmt="o-", color=COLOURS[0], label="loss, lengths seen (left axis)")
    right.set(xlabel="base", ylabel="nats per token", xscale="log", yscale="log")
    other = right.twinx()
    neighbours = [distances(base, 2)[1] for base in settings["bases"]]
    other.plot(settings["bases"], neighbours, "s--", color=COLOURS[1], label="distance of neighbours (right axis)")
    other.set_ylabel(f"||PE(pos + 1) - PE(pos)||, d_model = {D_MODEL}")
    handles, labels = map(list.__add__, *(axes.get_legend_handles_labels() for axes in (right, other)))
    right.legend(handles, labels, frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.suptitle("Sec. 3.5: positions")
    return figure
