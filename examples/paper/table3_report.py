"""Table 3 as measured beside the paper's: the Markdown table, the rank correlation of the differences, the picture."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from seeds import TEST, compare, rank_correlation, standard_error, with_error

from benchmarks.common.tables import markdown_table
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOOTSTRAP_SAMPLES = 10_000

ABOUT_EQUAL = 0.007
"""Log-perplexities that differ by less are taken for equal, in nats: in the paper A3, D2 and E are base's equals."""

REASONS = {
    "A2": "perhaps since base's heads are 16 wide here instead of 64, and narrow heads lose: see group B",
    "A3": "as A2",
    "C3": "4 layers instead of 3; perhaps deeper models need more updates than these: see benchmarks/notes.md",
    "D2": "its loss still falls in training and on the development set: 5,000 updates are too few for it",
    "E": "by little; perhaps since positions that few sentences reach are learned from few examples",
    "big": "perhaps dropout of 0.3 needs the paper's three times as many updates; C5, as wide with 0.1, is best",
}
"""Why the perplexity of a row may part from the paper's."""


def by_row(results: Sequence[dict], key: str) -> dict[str, np.ndarray]:
    """Row -> the values of ``key``, one a seed."""
    rows: dict[str, list[float]] = {}
    for result in results:
        rows.setdefault(result["name"], []).append(result[key] + 0.0)  # a TypeError unless it is a number
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
    """In which rows perplexity differs from base's as in the paper, and in which not, with the reason there may be."""
    nll, groups = by_row(results, "nll"), {"as": [], "other": [], "unclear": [], "single": []}
    for row in [row for row in paper if row in nll and row != "base"]:
        above, ours, error = deltas(results, paper)[row]
        published = int(np.sign(above)) if abs(above) > ABOUT_EQUAL else 0
        sign = compare(nll[row], nll["base"])
        measured = sign if abs(ours) > ABOUT_EQUAL else 0
        is_clear = sign != 0 or (published == 0 and error <= ABOUT_EQUAL)
        direction = {1: "higher", -1: "lower", 0: "about equal"}
        if math.isnan(error):
            groups["single"].append(row)
        elif not is_clear:
            groups["unclear"].append(f"{row} ({direction[published]} in the paper)")
        elif measured == published:
            groups["as"].append(f"{row} ({direction[measured]})")
        else:
            reason = f"; {REASONS[row]}" if row in REASONS else ""
            groups["other"].append(f"{row} ({direction[measured]}, {direction[published]} in the paper{reason})")
    parts = {
        "as": "agrees with the paper in",
        "other": "does not agree in",
        "unclear": "is not distinguishable in",
        "single": "has a single seed and is not compared in",
    }
    said = "; ".join(f"{parts[key]} {', '.join(rows)}" for key, rows in groups.items() if rows)
    return f"Compared with base, perplexity {said or 'has nothing to be compared with'}."


def pilot(results: Sequence[dict]) -> str:
    """Whether seeds scatter little enough to tell rows apart: by base, beside the gap to C1."""
    nll = by_row(results, "nll")
    if not {"base", "C1"} <= nll.keys() or len(nll["base"]) < 2:
        return ""
    error, gap = standard_error(nll["base"]), nll["C1"].mean() - nll["base"].mean()
    is_below = "below" if error < gap / 3 else "not below"
    return (
        f" The standard error of base over {len(nll['base'])} seeds, {error:.3f} nats, is {is_below} a third of the gap"
        f" between C1 and base, {gap / 3:.3f}."
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
    settings = ", ".join(f"{key} {in_words(value)}" for key, value in results[0]["settings"].items())
    commits = sorted({result["machine"]["commit"] for result in results})
    lines += [
        f"`python examples/paper/table3.py --run {' '.join(row for row in paper if row in nll)}`, base with `--seeds"
        f" {len(nll.get('base', ()))}`; ± is the standard"
        f" error over seeds, and {TEST}.{pilot(results)} Settings: {settings}."
        f" {results[0]['machine']['processor']}, one core for each training, commits {', '.join(commits)}.",
        "",
        "Loss and BLEU are those of the development set (the paper's: newstest2013). Hours are those of the seed that"
        " took least time: the machine did other work beside most.",
        "",
    ]
    first, hours = {result["name"]: result for result in reversed(results)}, by_row(results, "seconds")
    head = ["row", "seeds", "loss, nats/token", "PPL", "paper's PPL", "BLEU", "paper's BLEU"]
    head += ["parameters", "FLOPs", "hours"]
    rows = [
        [row, str(len(nll[row])), with_error(nll[row], 3), f"{math.exp(nll[row].mean()):.2f}", f"{paper[row][0]:.2f}"]
        + [with_error(bleu[row], 1), f"{paper[row][1]:.1f}", f"{first[row]['parameters'] / 1e6:.2f} M"]
        + [f"{first[row]['flops']:.1e}", f"{hours[row].min() / 3600:.2f}"]
        for row in paper
        if row in nll
    ]
    return "\n".join([*lines, *markdown_table(head, rows)]) + "\n"


def in_words(setting: object) -> str:
    """``{"d_ff": 4}`` as "d_ff / 4", others as they are."""
    return " and ".join(f"{k} / {v}" for k, v in setting.items()) if isinstance(setting, dict) else str(setting)


def draw_deltas(results: Sequence[dict], paper: Mapping[str, tuple]) -> "Figure":
    """How far each row is above base: the paper's difference in log-perplexity across, ours upwards, with its error.

    A row of a single seed, which has no error, is an empty circle.
    """
    figure = new_figure(7, 6)
    axes = figure.subplots()
    points = deltas(results, paper)
    for row, (published, measured, error) in points.items():
        known = not math.isnan(error)
        style = {"color": "#0072b2", "capsize": 3, "markerfacecolor": "#0072b2" if known else "none"}
        axes.errorbar(published, measured, yerr=error if known else None, fmt="o", **style)
        side, align = (-5, "right") if published < 0 else (5, "left")
        axes.annotate(row, (published, measured), xytext=(side, 4), textcoords="offset points", ha=align)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.axvline(0, color="#999999", linewidth=0.8)
    axes.margins(x=0.08)
    axes.set_xlabel("the paper: log-perplexity minus base's, nats per token")
    axes.set_ylabel("class scale: log-perplexity minus base's, nats per token")
    title = "Table 3: every variation against the base model"
    axes.set_title(f"{title}\n{correlation_text(results, paper)}" if len(points) > 2 else title, fontsize=10)
    return figure
