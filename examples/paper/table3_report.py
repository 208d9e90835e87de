"""Table 3 as measured beside the paper's: each row beside base, the Markdown tables, the picture."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from examples.paper.seeds import (
    LEVEL,
    VERDICTS,
    differences,
    holm,
    paired,
    rank_correlation,
    standard_error,
    tested_by,
    with_error,
)
from examples.report import markdown_table, page
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEPARATED = 0.02
"""Rows whose log-perplexity the paper has further than this from base's, in nats per token, differ there; the others
are base's equals."""
NOT_REPLICATED = "big"
"""Has three times base's updates in the paper, and here as many at a dropout of 0.3: neither tested nor ranked."""
PAIRED = "Student's t-test of the differences seed by seed, with Holm's correction,"


class Beside(NamedTuple):
    """A row beside base, in nats per token.

    published: its log-perplexity above base's in the paper   ours: here, one value a seed
    t, p: of Student's test, NaN for one seed   p_holm: p corrected, NaN for a row that is not tested
    """

    published: float
    ours: np.ndarray
    t: float
    p: float
    p_holm: float

    @property
    def is_separate(self) -> bool:
        return abs(self.published) > SEPARATED

    @property
    def sign(self) -> int:
        """1 or -1 if the row is told apart from base, above or below it; else 0."""
        return int(np.sign(self.t)) if self.p_holm < LEVEL else 0


def by_row(results: Sequence[dict], key: str) -> dict[str, np.ndarray]:
    """Row -> the values of ``key``, one a seed."""
    rows: dict[str, list[float]] = {}
    for result in results:
        rows.setdefault(result["name"], []).append(result[key] + 0.0)  # a TypeError unless it is a number
    return {row: np.array(values) for row, values in rows.items()}


def beside_base(results: Sequence[dict], paper: Mapping[str, tuple]) -> dict[str, Beside]:
    """Each row that has a seed in common with base. Two questions, each with its correction: of the rows that the paper
    separates from base, and of its equals."""
    ours = {row: differences(results, "nll", row, "base") for row in paper if row != "base"}
    found = {}
    for row, values in ours.items():
        if len(values):
            published = math.log(paper[row][0] / paper["base"][0])
            found[row] = Beside(published, values, *paired(values), math.nan)
    for is_separate in (True, False):
        rows = [row for row in found if found[row].is_separate == is_separate and row != NOT_REPLICATED]
        for row, p in zip(rows, holm([found[row].p for row in rows]), strict=True):
            found[row] = found[row]._replace(p_holm=p)
    return found


def beside_the_paper(sign: int, published: float) -> str:
    """sign: of what is told apart, or 0   published: the paper's difference, 0 if there is none"""
    if sign == 0:
        return "open: not told apart"
    how = "equal" if published == 0 else "as" if sign * published > 0 else "not as"
    return f"{'higher' if sign > 0 else 'lower'}, {how} in the paper"


def verdict(row: str, beside: Beside) -> str:
    """Whether the row is where the paper has it."""
    if row == NOT_REPLICATED:
        return "not replicated by design"
    if math.isnan(beside.p):
        return "not tested: one seed"
    return beside_the_paper(beside.sign, beside.published * beside.is_separate)


def summary(results: Sequence[dict], paper: Mapping[str, tuple]) -> list[list[str]]:
    """Claims, what was measured, verdicts."""
    rows = beside_base(results, paper)
    separate, equal = ([row for row in rows if rows[row].is_separate == kind] for kind in (True, False))
    other_side = [row for row in separate if rows[row].ours.mean() * rows[row].published <= 0]
    tested = [row for row in separate if row != NOT_REPLICATED]
    told, moved = ([row for row in kind if rows[row].sign] for kind in (tested, equal))
    same, against = len(separate) - len(other_side), len([row for row in told if row in other_side])
    return [
        [
            f"rows that lie more than {SEPARATED} nats from base lie on the same side here",
            f"all but: {listed(other_side)}",
        ]
        + [f"agrees in {same} of {len(separate)}"],
        [f"and differ from base ({NOT_REPLICATED} left out)", f"told apart from it: {listed(told)}"]
        + [counted(len(told) - against, against, len(tested))],
        [
            "the other rows are base's equals",
            f"told apart from it: {listed(moved)}",
            counted(0, len(moved), len(equal)),
        ],
        ["the order of the rows", f"rank correlation: {correlations(results, paper)}", "not tested"],
    ]


def listed(rows: Sequence[str]) -> str:
    return ", ".join(rows) or "none"


def counted(agree: int, against: int, n: int) -> str:
    """The verdict on n rows."""
    parts = {"agrees": agree, "does not agree": against, "open": n - agree - against}
    return ", ".join(f"{verb} in {count}" for verb, count in parts.items() if count)


def correlations(results: Sequence[dict], paper: Mapping[str, tuple]) -> str:
    """Spearman's rho of the perplexities, of all rows and of each group of at least three with base."""
    nll = {row: values.mean() for row, values in by_row(results, "nll").items() if row != NOT_REPLICATED}
    groups = {"all": list(nll)} | {group: [row for row in nll if row[0] in ("b", group)] for group in "ACD"}
    found = []
    for group, rows in groups.items():
        if len(rows) > 3:
            rho = rank_correlation(np.array([paper[row][0] for row in rows]), np.array([nll[row] for row in rows]))
            found.append(f"{group} {rho:.2f}")
    return f"{listed(found)} ({NOT_REPLICATED} left out, base with each group)"


def markdown(results: Sequence[dict], paper: Mapping[str, tuple]) -> str:
    """Verdicts, each row beside base, and mean and standard error of each row beside the paper's figures."""
    nll, bleu, besides = by_row(results, "nll"), by_row(results, "bleu"), beside_base(results, paper)
    settings = ", ".join(f"{key} {in_words(value)}" for key, value in results[0]["settings"].items())
    commits = sorted({result["machine"]["commit"] for result in results})
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
    return page(
        "# Table 3 at class scale",
        markdown_table(VERDICTS, summary(results, paper)) if besides else "",
        f"`python -m examples.paper.table3 --run {' '.join(row for row in paper if row in nll)}`, base with `--seeds"
        f" {len(nll.get('base', ()))}`; ± is the standard error over seeds, and {tested_by(PAIRED)}. Settings:"
        f" {settings}. {results[0]['machine']['processor']}, one core for each training, commits {', '.join(commits)}.",
        *(beside_table(besides) if besides else []),
        "Loss and BLEU are those of the development set (the paper's: newstest2013). Hours are those of the seed that"
        " took least time: the machine did other work beside most.",
        markdown_table(head, rows),
    )


def beside_table(rows: Mapping[str, Beside]) -> list[str]:
    """The table of differences, after what its corrected p-values are of."""
    head = ["row", "paper", "here", "seeds", "t", "p", "p, corrected", "verdict"]
    body = [
        [row, f"{each.published:.3f}", with_error(each.ours, 3), str(len(each.ours))]
        + ["" if math.isnan(figure) else f"{figure:.3g}" for figure in (each.t, each.p, each.p_holm)]
        + [verdict(row, each)]
        for row, each in rows.items()
    ]
    tested = {row: each.p for row, each in rows.items() if row != NOT_REPLICATED}
    at_once = [row for row, p in zip(tested, holm(list(tested.values())), strict=True) if p < LEVEL]
    return [
        f"Log-perplexity minus base's with the same seed, nats per token. {NOT_REPLICATED} has three times base's"
        " updates in the paper, and here as many as base. Holm's correction is of the two questions above, each by"
        f" itself; of all {len(tested)} rows at once it would leave {len(at_once)}: {listed(at_once)}.",
        markdown_table(head, body),
    ]


def in_words(setting: object) -> str:
    """``{"d_ff": 4}`` as "d_ff / 4", others as they are."""
    return " and ".join(f"{k} / {v}" for k, v in setting.items()) if isinstance(setting, dict) else str(setting)


def draw_deltas(results: Sequence[dict], paper: Mapping[str, tuple]) -> "Figure":
    """How far each row is above base: the paper's difference in log-perplexity across, ours upwards, with its error.

    A row of a single seed, which has no error, is an empty circle; big is grey; between the dotted lines are those that
    the paper does not separate from base.
    """
    figure = new_figure(7, 6)
    axes = figure.subplots()
    for row, beside in beside_base(results, paper).items():
        published, measured, error = beside.published, beside.ours.mean(), standard_error(beside.ours)
        known, colour = not math.isnan(error), "#999999" if row == NOT_REPLICATED else "#0072b2"
        style = {"color": colour, "capsize": 3, "markerfacecolor": colour if known else "none"}
        axes.errorbar(published, measured, yerr=error if known else None, fmt="o", **style)
        side, align = (-5, "right") if -0.1 < published < 0 else (5, "left")
        label = f"{row} (not replicated)" if row == NOT_REPLICATED else row
        axes.annotate(label, (published, measured), xytext=(side, 4), textcoords="offset points", ha=align)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.axvline(0, color="#999999", linewidth=0.8)
    for end in (-SEPARATED, SEPARATED):
        axes.axvline(end, color="#999999", linewidth=0.8, linestyle=":")
    axes.margins(x=0.08)
    axes.set_xlabel("the paper: log-perplexity minus base's, nats per token")
    axes.set_ylabel("class scale: log-perplexity minus base's, nats per token")
    axes.set_title("Table 3: every variation against the base model", fontsize=10)
    return figure
