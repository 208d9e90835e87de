"""Table 1 as measured, next to the paper's: the page and the picture."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from examples.paper.seeds import VERDICTS
from examples.report import markdown_table, page
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {
    "self-attention": ("O(n² d)", {"n": 2, "d": 1}, "O(1)", "O(1)"),
    "recurrent": ("O(n d²)", {"n": 1, "d": 2}, "O(n)", "O(n)"),
    "convolutional": ("O(k n d²)", {"n": 1, "d": 2}, "O(1)", "O(log_k n)"),
    "restricted": ("O(r n d)", {"n": 1, "d": 1, "r": 1}, "O(1)", "O(n / r)"),
}
"""(complexity per layer, its exponents, sequential operations, maximum path length)  [Table 1]"""

FAR = 0.2
"""Exponents that differ by more than this are reported as different."""

COLORS = {"self-attention": "#0072b2", "recurrent": "#d55e00", "convolutional": "#009e73", "restricted": "#cc79a7"}


SIDES = {"in": 1e6, "out of": 8e6}
"""Bytes of the GRU's recurrent matrix up to which it fits in a core's own cache (1 MB where it was measured), and from
which it is read from memory; sizes in between mix the two."""


def doublings(part: Mapping, kind: str, key: str = "seconds") -> np.ndarray:
    """The exponent of each step from one size to the next, the last of which is nearest to the paper's limit."""
    return np.diff(np.log(part["layers"][kind][key])) / np.diff(np.log(part["sizes"]))


def markdown(result: Mapping) -> str:
    """Verdicts, each row of Table 1 with what was measured, sequential operations and paths."""
    facts, head = result["machine"], ["layer", "paper", "grows", "exponent, paper", "time, each doubling"]
    rows = [
        [kind, complexity, name, str(papers[name]), ", ".join(f"{each:.2f}" for each in doublings(result[name], kind))]
        + [f"{doublings(result[name], kind, 'bytes')[-1]:.2f}"]
        for kind, (complexity, papers, _, _) in PAPER.items()
        for name in "ndr"
        if kind in result[name]["layers"]
    ]
    sizes = "; ".join(
        f"{name} {', '.join(map(str, result[name]['sizes']))} with "
        + ", ".join(f"{other} = {size:,}" for other, size in result[name]["fixed"].items())
        for name in "ndr"
    )
    return page(
        "# Table 1, measured",
        markdown_table(VERDICTS, verdicts(result)),
        caches(result),
        "`python -m examples.paper.table1`",
        f"Exponents of seconds and bytes, forward and backward. Sizes: {sizes}; batch {result['batch']}, k ="
        f" {result['k']}. One thread of {facts['processor']}, NumPy {facts['NumPy']}, commit {facts['commit']}.",
        markdown_table([*head, "memory, last doubling"], rows),
        *paths_table(result),
    )


def verdicts(result: Mapping) -> list[list[str]]:
    """Claims, what was measured, verdicts."""
    last = {(name, kind): doublings(result[name], kind)[-1] for name in "ndr" for kind in result[name]["layers"]}
    far = {
        f"{kind} in {name}": f"{found:.2f} instead of {PAPER[kind][1][name]}"
        for (name, kind), found in last.items()
        if abs(found - PAPER[kind][1][name]) > FAR
    }
    others, crossing, d = growth_of_paths(result), result["n"]["crossing"], result["n"]["fixed"]["d"]
    ours, theirs = (result["n"]["layers"][kind]["seconds"] for kind in ("self-attention", "recurrent"))
    is_faster = all(a < b for n, a, b in zip(result["n"]["sizes"], ours, theirs, strict=True) if n < d)
    found = "; ".join(f"{which} {what}" for which, what in far.items())
    times = found or f"all within {FAR} of the paper's"
    where = f"up to n = {crossing:.0f} at d = {d}" if crossing else "no crossing of the two among these sizes"
    answers = {True: "agrees", False: "does not agree"}
    growth = f"other growth: {', '.join(others) or 'none'}"
    return [
        ["time grows with n, d and r as in Table 1", f"exponents of the last doubling: {times}", answers[not far]],
        ["sequential operations and path lengths grow as in Table 1", growth, answers[not others]],
        ["self-attention is faster than recurrence for n < d", where, answers[is_faster]],
    ]


def sides_of_the_cache(part: Mapping) -> dict[str, tuple[np.ndarray, float]]:
    """The widths on either side of the cache, and the exponent of the GRU's time that is fitted to each side."""
    d, seconds = np.array(part["sizes"]), np.array(part["layers"]["recurrent"]["seconds"])
    inside = {"in": 12 * d**2 <= SIDES["in"], "out of": 12 * d**2 >= SIDES["out of"]}
    return {
        side: (d[rows], float(np.polyfit(np.log(d[rows]), np.log(seconds[rows]), 1)[0]))
        for side, rows in inside.items()
        if rows.sum() > 1
    }


def caches(result: Mapping) -> str:
    """Why the GRU's time grows more slowly than d squared in the cache and faster where it leaves it."""
    part, n = result["d"], result["d"]["fixed"]["n"]
    sizes = ", ".join(f"{12 * d * d / 1e6:.2g} MB at {d:,}" for d in part["sizes"])
    found = zip(part["sizes"], part["layers"]["recurrent"]["seconds"], strict=True)
    rates = ", ".join(f"{2 * n * 12 * d * d / seconds / 1e9:.2g}" for d, seconds in found)
    fits = "; ".join(
        f"{side} the cache ({', '.join(f'{d:,}' for d in widths)}) it is {exponent:.2f}"
        for side, (widths, exponent) in sides_of_the_cache(part).items()
    )
    return (
        "The GRU reads its recurrent matrix of 12 d² bytes at each of the n steps, forward and backward:"
        f" {sizes}. The rates are {rates} GB/s, so the exponent of d is fitted on either side of the cache: {fits}."
        " In the cache much of a step is spent outside the matrix products, and only their time grows with d²; out of"
        " the cache the matrix is read more slowly. Both have been measured (benchmarks/notes.md)."
    )


def paths_table(result: Mapping) -> list[str]:
    """Sequential operations and path lengths, at growing n."""
    lengths = result["paths"]["lengths"]
    heads = [f"n = {length}" for length in lengths]
    about = (
        "Sequential operations: the longest chain of matrix products in a forward pass, each of which needs the one"
        " before it. Path length: layers needed until the last output depends on the first input, judged by the"
        f" gradient (r = {result['paths']['r']}); one layer of the GRU is enough, but within it the path has n states."
    )
    rows = []
    for name, needed in result["paths"]["layers"].items():
        _, _, sequential, path = PAPER[name.split(",")[0]]
        products = result["products"].get(name, result["products"][name.split(",")[0]])
        path = "O(n / k)" if name == "convolutional" else path  # kernels without gaps  [sec. 4]
        path = f"{path} (states)" if name == "recurrent" else path
        rows.append([name, sequential, *map(str, products), path, *map(str, needed)])
    return [about, markdown_table(["layer", "products", *heads, "layers", *heads], rows)]


def growth_of_paths(result: Mapping) -> list[str]:
    """The layers whose sequential operations or path lengths do not grow as in the paper."""
    lengths, needed, r = np.array(result["paths"]["lengths"]), result["paths"]["layers"], result["paths"]["r"]
    reach = (result["k"] - 1) // 2
    expected = {
        "self-attention": np.ones_like(lengths),
        "convolutional": -(-(lengths - 1) // reach),
        "restricted": -(-(lengths - 1) // (r // 2)),
        "convolutional, dilated": np.round(np.log(2 * lengths - 1) / np.log(result["k"])),
    }
    others = [name for name, layers in expected.items() if list(layers) != needed[name]]
    chains = result["products"]
    others += [f"{kind}'s products" for kind in chains if kind != "recurrent" and len(set(chains[kind])) > 1]
    others += ["recurrent's products"] if chains["recurrent"] != list(lengths) else []
    return others


def draw_growth(result: Mapping) -> "Figure":
    """Seconds and megabytes against n, d and r, log-log, a line for each kind."""
    figure = new_figure(14, 7.5)
    panels = figure.subplots(2, 3, sharey="row")
    names = {"n": "length n, positions", "d": "width d", "r": "neighborhood r, positions"}
    for column, (name, label) in enumerate(names.items()):
        part = result[name]
        for row, (key, unit, what) in enumerate((("seconds", 1.0, "seconds"), ("bytes", 1e6, "peak memory, MB"))):
            axes = panels[row][column]
            for kind, found in part["layers"].items():
                limit = f", paper {PAPER[kind][1][name]}" if key == "seconds" else ""
                legend = f"{kind}: last doubling {doublings(part, kind, key)[-1]:.2f}{limit}"
                axes.loglog(
                    part["sizes"], np.array(found[key]) / unit, "o-", color=COLORS[kind], markersize=4, label=legend
                )
            axes.set_xticks(part["sizes"], [f"{size:,}" for size in part["sizes"]], fontsize=8)
            axes.minorticks_off()
            axes.grid(True, color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False, fontsize=8)
            axes.set_ylabel(f"{what}, forward and backward")
            fixed = ", ".join(f"{other} = {size:,}" for other, size in part["fixed"].items())
            axes.set_xlabel(f"{label} ({fixed}, batch {result['batch']})")
    figure.suptitle("Table 1: how a layer's time and memory grow")
    return figure
