"""Table 3 as measured, next to the paper's: each row compared with base, the Markdown tables, the picture."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from examples.paper.seeds import (
    LEVEL,
    STUDENT,
    VERDICTS,
    differences,
    holm,
    p_alike,
    paired,
    standard_error,
    tested_by,
    with_error,
)
from examples.report import all_machines, markdown_table, on_a_core, page
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEPARATED = 0.02
"""The equivalence bound, nats per token. Rows whose log-perplexity in the paper is further than this from base's differ
there. The others are equal to base, and so are rows here that are shown to lie within the bound."""
NOT_REPLICATED = "big"
"""It has three times base's updates in the paper, but here as many as base, at a dropout rate of 0.3. It does not
replicate the paper's row, so no verdict counts it."""
PRE_NORM = "-pre"
"""Ends the name of a row in pre-norm, which is compared with base in pre-norm; the paper has no such rows."""


class Beside(NamedTuple):
    """A row compared with base, in nats per token.

    published: its log-perplexity above base's in the paper   ours: here, one value per seed
    t, p: of Student's test, NaN for one seed   p_holm: p corrected, NaN for a row that is not tested
    p_alike: of the equivalence test within `SEPARATED` of base, corrected, NaN for a row that differs in the paper
    """

    published: float
    ours: np.ndarray
    t: float
    p: float
    p_holm: float = math.nan
    p_alike: float = math.nan

    @property
    def is_separate(self) -> bool:
        return abs(self.published) > SEPARATED

    @property
    def sign(self) -> int:
        """1 or -1 if the row is significantly above or below base, else 0."""
        return int(np.sign(self.t)) if self.p_holm < LEVEL else 0


def by_row(results: Sequence[dict], key: str) -> dict[str, np.ndarray]:
    """Row -> the values of ``key``, one per seed."""
    rows: dict[str, list[float]] = {}
    for result in results:
        rows.setdefault(result["name"], []).append(result[key] + 0.0)  # a TypeError unless it is a number
    return {row: np.array(values) for row, values in rows.items()}


def beside_base(results: Sequence[dict], paper: Mapping[str, tuple], norm: str = "") -> dict[str, Beside]:
    """Each row that has a seed in common with base. Two questions are corrected separately: that of the rows that
    differ from base in the paper, and that of its equals.

    norm: `PRE_NORM` for the rows in pre-norm
    """
    ours = {row: differences(results, "nll", row + norm, f"base{norm}") for row in paper if row != "base"}
    found = {}
    for row, values in ours.items():
        if len(values):
            published = math.log(paper[row][0] / paper["base"][0])
            found[row] = Beside(published, values, *paired(values))
    for is_separate in (True, False):
        rows = [row for row in found if found[row].is_separate == is_separate and row != NOT_REPLICATED]
        alike = holm([math.nan if is_separate else p_alike(found[row].ours, SEPARATED) for row in rows])
        for row, p, other in zip(rows, holm([found[row].p for row in rows]), alike, strict=True):
            found[row] = found[row]._replace(p_holm=p, p_alike=other)
    return found


def beside_the_paper(sign: int, published: float) -> str:
    """sign: of a significant difference, else 0   published: the paper's difference, 0 if there is none"""
    if sign == 0:
        return "open: not significantly different"
    how = "equal" if published == 0 else "as" if sign * published > 0 else "not as"
    return f"{'higher' if sign > 0 else 'lower'}, {how} in the paper"


def verdict(row: str, beside: Beside) -> str:
    """Whether the row is where the paper has it."""
    if row == NOT_REPLICATED:
        return "not replicated by design"
    if math.isnan(beside.p):
        return "not tested: one seed"
    if beside.p_alike < LEVEL:
        return "equal, as in the paper"
    return beside_the_paper(beside.sign, beside.published * beside.is_separate)


def summary(results: Sequence[dict], paper: Mapping[str, tuple]) -> list[list[str]]:
    """Claims, what was measured, verdicts."""
    rows = {row: each for row, each in beside_base(results, paper).items() if row != NOT_REPLICATED}
    separate, equal = ([row for row in rows if rows[row].is_separate == kind] for kind in (True, False))
    other_side = [row for row in separate if rows[row].ours.mean() * rows[row].published <= 0]
    told, alike = [row for row in separate if rows[row].sign], [row for row in equal if rows[row].p_alike < LEVEL]
    moved = [row for row in equal if rows[row].sign and row not in alike]
    n, against = len(separate), len([row for row in told if row in other_side])
    return [
        [
            f"rows more than {SEPARATED} nats from base in the paper lie on the same side here"
            f" ({NOT_REPLICATED} left out)",
            f"all but: {listed(other_side)}",
            f"agrees in {n - len(other_side)} of {n}",
        ],
        ["these rows differ from base", f"significantly: {listed(told)}", counted(len(told) - against, against, n)],
        [
            f"the other rows are equivalent to base: within {SEPARATED} nats",
            f"shown to be equivalent: {listed(alike)}; significantly different: {listed(moved)}",
            counted(len(alike), len(moved), len(equal)),
        ],
        *(
            [f"{row} and base, both in pre-norm", f"{with_error(each.ours, 3)} nats per token", verdict(row, each)]
            for row, each in beside_base(results, paper, PRE_NORM).items()
        ),
    ]


def listed(rows: Sequence[str]) -> str:
    return ", ".join(rows) or "none"


def counted(agree: int, against: int, n: int) -> str:
    """The verdict on n rows."""
    parts = {"agrees": agree, "does not agree": against, "open": n - agree - against}
    return ", ".join(f"{verb} in {count}" for verb, count in parts.items() if count)


def markdown(results: Sequence[dict], paper: Mapping[str, tuple]) -> str:
    """Verdicts, each row compared with base, and mean and standard error of each row next to the paper's figures."""
    nll, bleu, besides = by_row(results, "nll"), by_row(results, "bleu"), beside_base(results, paper)
    settings = ", ".join(f"{key} {in_words(value)}" for key, value in results[0]["settings"].items())
    processors, commits = (all_machines(results, fact) for fact in ("processor", "commit"))
    first, seconds = {result["name"]: result for result in reversed(results)}, by_row(on_a_core(results), "seconds")
    hours = {row: f"{each.min() / 3600:.2f}" for row, each in seconds.items()}
    head = ["row", "seeds", "loss, nats/token", "PPL", "paper's PPL", "BLEU", "paper's BLEU"]
    head += ["parameters", "FLOPs", "hours"]
    shown = [row for norm in ("", PRE_NORM) for row in (f"{each}{norm}" for each in paper) if row in nll]
    published = {row: [f"{ppl:.2f}", f"{score:.1f}"] for row, (ppl, score, _) in paper.items()}
    rows = [
        [row, str(len(nll[row])), with_error(nll[row], 3), f"{math.exp(nll[row].mean()):.2f}"]
        + [published.get(row, ["", ""])[0], with_error(bleu[row], 1), published.get(row, ["", ""])[1]]
        + [f"{first[row]['parameters'] / 1e6:.2f} M", f"{first[row]['flops']:.1e}", hours.get(row, "")]
        for row in shown
    ]
    return page(
        "# Table 3 at class scale",
        markdown_table(VERDICTS, summary(results, paper)) if besides else "",
        f"`python -m examples.paper.table3 --run {' '.join(shown)}`, with as many `--seeds` as the tables say; ± is the"
        f" standard error over seeds, and {tested_by(STUDENT)}. Settings: {settings}. {processors}; a training on a"
        f" processor uses one core. Commits {commits}.",
        *(beside_table(besides) if besides else []),
        "Loss and BLEU are measured on the development set (in the paper, newstest2013). Hours are those of one core,"
        " for the fastest seed, because the machine did other work during most trainings.",
        markdown_table(head, rows),
    )


def beside_table(rows: Mapping[str, Beside]) -> list[str]:
    """The table of differences, after what its p-values are corrected for."""
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
        " updates in the paper, but as many as base here. Holm's correction is applied to each of the two questions"
        f" above separately; applied to all {len(tested)} rows at once, it would leave {len(at_once)} significant:"
        f" {listed(at_once)}.",
        markdown_table(head, body),
    ]


def in_words(setting: object) -> str:
    """``{"d_ff": 4}`` as "d_ff / 4", others as they are."""
    return " and ".join(f"{k} / {v}" for k, v in setting.items()) if isinstance(setting, dict) else str(setting)


def draw_deltas(results: Sequence[dict], paper: Mapping[str, tuple]) -> "Figure":
    """How far each row is above base: the paper's difference in log-perplexity across, ours upwards, with errors.

    The paper trained each row once and gives no error, so its bar is as long as the scatter of a single seed here. A
    row with a single seed is an empty circle; big is gray; between the dotted lines are the rows that equal base in
    the paper.
    """
    figure = new_figure(7, 6)
    axes, rows = figure.subplots(), beside_base(results, paper)
    variances = [each.ours.var(ddof=1) for each in rows.values() if len(each.ours) > 1]
    scatter = math.sqrt(np.mean(variances)) if variances else None
    for row, beside in rows.items():
        published, measured, error = beside.published, beside.ours.mean(), standard_error(beside.ours)
        known, color = not math.isnan(error), "#999999" if row == NOT_REPLICATED else "#0072b2"
        style = {"color": color, "elinewidth": 0.8, "markersize": 5, "markerfacecolor": color if known else "none"}
        axes.errorbar(published, measured, yerr=error if known else None, xerr=scatter, fmt="o", **style)
        side, align = (-5, "right") if -0.1 < published < 0 else (5, "left")
        label = f"{row} (not replicated)" if row == NOT_REPLICATED else row
        axes.annotate(label, (published, measured), xytext=(side, 4), textcoords="offset points", ha=align)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.axvline(0, color="#999999", linewidth=0.8)
    for end in (-SEPARATED, SEPARATED):
        axes.axvline(end, color="#999999", linewidth=0.8, linestyle=":")
    axes.margins(x=0.08)
    axes.set_xlabel("the paper: log-perplexity minus base's, nats per token (bar: scatter of one seed here)")
    axes.set_ylabel("class scale: the same (bar: standard error over seeds)")
    axes.set_title("Table 3: every variation against the base model", fontsize=10)
    return figure
