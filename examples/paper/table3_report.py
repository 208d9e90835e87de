"""Table 3 as measured beside the paper's: the Markdown table, the rank correlation of the differences, the picture."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from seeds import compare, rank_correlation, standard_error, with_error

from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOOTSTRAP_SAMPLES = 10_000

REASONS = {
    "C3": "twice the layers need more updates than these before their depth pays: see benchmarks/notes.md",
}
"""Why a row may part from the paper's."""


def by_row(results: Sequence[dict], key: str) -> dict[str, np.ndarray]:
    """Row -> the values of ``key``, one a seed."""
    rows: dict[str, list[float]] = {}
    for result in results:
        rows.setdefault(result["name"], []).append(result[key])
    return {row: np.array(values) for row, values in rows.items()}


def deltas(results: Sequence[dict], paper: Mapping[str, tuple]) -> dict[str, tuple[float, float, float]]:
    """Row -> (log-perplexity above base's in the paper, here, standard error of the latter), in nats per token."""
    nll = by_row(results, "nll")
    base, base_error = nll["base"].mean(), standard_error(nll["base"])
    differences = {}
    for row, values in nll.items():
        if row != "base":
            error = math.hypot(standard_error(values), base_error)
            differences[row] = (math.log(paper[row][0] / paper["base"][0]), values.mean() - base, error)
    return differences


def correlation_interval(results: Sequence[dict], paper: Mapping[str, tuple]) -> tuple[float, float, float]:
    """(Spearman's rho of the log-perplexities over all rows, low and high end of its 95 % bootstrap interval).

    Each bootstrap sample draws rows with replacement, and for each of them seeds with replacement.
    """
    nll = by_row(results, "nll")
    rows = list(nll)
    published = np.array([paper[row][0] for row in rows])
    rho = rank_correlation(published, np.array([nll[row].mean() for row in rows]))
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(BOOTSTRAP_SAMPLES):
        drawn = rng.integers(len(rows), size=len(rows))
        means = [rng.choice(nll[rows[row]], len(nll[rows[row]])).mean() for row in drawn]
        samples.append(rank_correlation(published[drawn], np.array(means)))
    return rho, *np.nanquantile(samples, (0.025, 0.975))


def correlation_text(results: Sequence[dict], paper: Mapping[str, tuple]) -> str:
    rho, low, high = correlation_interval(results, paper)
    return f"rank correlation {rho:.2f}, 95 % bootstrap interval {low:.2f} to {high:.2f}"


def verdict(results: Sequence[dict], paper: Mapping[str, tuple]) -> str:
    """In which rows perplexity parts from base's as in the paper, and in which not, with the reason there may be.

    A row of one seed, which has no standard error, is left out.
    """
    nll = by_row(results, "nll")
    same, other, unclear = [], [], []
    for row in [row for row in paper if row != "base" and len(nll.get(row, ())) > 1]:
        published, measured = np.sign(paper[row][0] - paper["base"][0]), compare(nll[row], nll["base"])
        if measured == 0:
            unclear.append(f"{row} ({ {1: 'higher', -1: 'lower', 0: 'equal'}[published] } in the paper)")
        elif measured == published:
            same.append(row)
        else:
            other.append(f"{row} ({REASONS[row]})" if row in REASONS else row)
    return (
        f"Perplexity is higher or lower than base's as in the paper in {', '.join(same) or 'no row'}; the other way in"
        f" {', '.join(other) or 'no row'}; within twice the standard error of base's in"
        f" {', '.join(unclear) or 'no row'}."
    )


def markdown(results: Sequence[dict], paper: Mapping[str, tuple]) -> str:
    """The table: mean and standard error over the seeds of each row, beside the paper's figures."""
    nll, bleu = by_row(results, "nll"), by_row(results, "bleu")
    lines = ["# Table 3 at class scale", ""]
    if "base" in nll:
        lines += [verdict(results, paper), ""]
        if len(nll) > 3:
            rows = f"{len(nll)} of {len(paper)} rows"
            lines += [f"Perplexities beside the paper's, {rows}: {correlation_text(results, paper)}.", ""]
    settings = ", ".join(f"{key} {value}" for key, value in results[0]["settings"].items())
    commits = sorted({result["machine"]["commit"] for result in results})
    lines += [
        f"Settings: {settings}. {results[0]['machine']['processor']}, one core for each training, commits "
        f"{', '.join(commits)}.",
        "",
        "| row | seeds | log-perplexity, nats | PPL | paper's PPL | BLEU | paper's BLEU | parameters | FLOPs | hours |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    first, hours = {result["name"]: result for result in reversed(results)}, by_row(results, "seconds")
    for row in paper:
        if row in nll:
            lines.append(
                f"| {row} | {len(nll[row])} | {with_error(nll[row], 3)} | {math.exp(nll[row].mean()):.2f} | "
                f"{paper[row][0]:.2f} | {with_error(bleu[row], 1)} | {paper[row][1]:.1f} | "
                f"{first[row]['parameters'] / 1e6:.2f} M | {first[row]['flops']:.1e} | {hours[row].mean() / 3600:.2f} |"
            )
    return "\n".join(lines) + "\n"


def draw_deltas(results: Sequence[dict], paper: Mapping[str, tuple]) -> "Figure":
    """How far each row is above base: the paper's difference in log-perplexity across, ours upwards, with its error."""
    figure = new_figure(7, 6)
    axes = figure.subplots()
    points = deltas(results, paper)
    for row, (published, measured, error) in points.items():
        axes.errorbar(published, measured, yerr=0 if math.isnan(error) else error, fmt="o", color="#0072b2", capsize=3)
        axes.annotate(row, (published, measured), xytext=(5, 4), textcoords="offset points")
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.axvline(0, color="#999999", linewidth=0.8)
    axes.set_xlabel("the paper: log-perplexity minus base's, nats per token")
    axes.set_ylabel("class scale: log-perplexity minus base's, nats per token")
    title = "Table 3: every variation against the base model"
    axes.set_title(f"{title}\n{correlation_text(results, paper)}" if len(points) > 2 else title, fontsize=10)
    return figure
