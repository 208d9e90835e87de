"""Table 1 as measured, beside the paper's: the Markdown table and the two pictures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.common.tables import markdown_table
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
"""Exponents that differ by more than this are named as different."""

COLOURS = {"self-attention": "#0072b2", "recurrent": "#d55e00", "convolutional": "#009e73", "restricted": "#cc79a7"}


def markdown(result: Mapping) -> str:
    """Each row of Table 1 with what was measured."""
    facts, sizes = result["machine"], {name: f"{result[name]['sizes'][-1]:,}" for name in "ndr"}
    fixed = {name: result[name]["fixed"] for name in "ndr"}
    lines = [
        "# Table 1, measured",
        "",
        f"{agreement(result)} {growth_of_paths(result)}",
        "",
        "`python examples/paper/table1.py`",
        "",
        "Exponents of seconds and bytes, forward and backward, over the three largest sizes:"
        f" n to {sizes['n']} with d = {fixed['n']['d']}, d to {sizes['d']} with n = {fixed['d']['n']}, r to"
        f" {sizes['r']} with n = {fixed['r']['n']:,} and d = {fixed['r']['d']}, else {result['n']['fixed']['r']}; batch"
        f" {result['batch']}, k = {result['k']}. One thread of {facts['processor']}, NumPy {facts['NumPy']}, commit"
        f" {facts['commit']}.",
        "",
    ]
    head, rows = ["layer", "paper", *(f"{what}: {name}" for what in ("time", "memory") for name in "ndr")], []
    for kind, (complexity, papers, _, _) in PAPER.items():
        found = {name: result[name]["layers"].get(kind, {}).get("exponents") for name in "ndr"}
        cells = [f"{found[name]['seconds']:.2f} (paper: {papers[name]})" if found[name] else "" for name in "ndr"]
        cells += [f"{found[name]['bytes']:.2f}" if found[name] else "" for name in "ndr"]
        rows.append([kind, complexity, *cells])
    lines += markdown_table(head, rows)
    if crossing := result["n"]["crossing"]:
        d = fixed["n"]["d"]
        lines += ["", f"At d = {d}, self-attention is faster than the GRU up to n = {crossing:.0f} (the paper: n < d)."]
        if crossing > d:
            lines[-1] += " The GRU's n products, one after another, are small and do not reach the processor's rate."
    return "\n".join([*lines, "", *paths_table(result)]) + "\n"


def paths_table(result: Mapping) -> list[str]:
    """Sequential operations and path lengths, at growing n."""
    lengths = result["paths"]["lengths"]
    heads = [f"n = {length}" for length in lengths]
    lines = [
        "Sequential operations: the longest chain of matrix products of a forward pass, each of which needs the one"
        " before. Path length: layers until the last output depends on the first input, by the gradient"
        f" (r = {result['paths']['r']}); one layer of the GRU is enough, but within it the path has n states.",
        "",
    ]
    rows = []
    for name, needed in result["paths"]["layers"].items():
        _, _, sequential, path = PAPER[name.split(",")[0]]
        products = result["products"].get(name, result["products"][name.split(",")[0]])
        path = "O(n / k)" if name == "convolutional" else path  # kernels without gaps  [sec. 4]
        path = f"{path} (states)" if name == "recurrent" else path
        rows.append([name, sequential, *map(str, products), path, *map(str, needed)])
    return lines + markdown_table(["layer", "products", *heads, "layers", *heads], rows)


def agreement(result: Mapping) -> str:
    """One sentence: which exponents of time are the paper's, and which are not."""
    far = []
    for name in "ndr":
        for kind, found in result[name]["layers"].items():
            measured, limit = found["exponents"]["seconds"], PAPER[kind][1][name]
            if abs(measured - limit) > FAR:
                far.append(f"{kind} in {name}, {measured:.2f} instead of {limit}")
    if not far:
        return f"All exponents of time are within {FAR} of the paper's."
    return (
        f"The exponents of time are within {FAR} of the paper's, except: {'; '.join(far)}. Perhaps some arrays do not"
        " fit the processor's caches at these sizes, or small ones do not reach its rate, which the paper does not"
        " count."
    )


def growth_of_paths(result: Mapping) -> str:
    """One sentence: whether sequential operations and path lengths grow as in the paper."""
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
    if others:
        return f"Sequential operations and paths do not grow as in the paper: {', '.join(others)}."
    return "Sequential operations and path lengths grow as in the paper."


def draw_growth(result: Mapping) -> "Figure":
    """Seconds and megabytes against n, d and r, log-log, a line for each kind."""
    figure = new_figure(14, 7.5)
    panels = figure.subplots(2, 3)
    names = {"n": "length n, positions", "d": "width d", "r": "neighbourhood r, positions"}
    for column, (name, label) in enumerate(names.items()):
        part = result[name]
        for row, (key, unit, what) in enumerate((("seconds", 1.0, "seconds"), ("bytes", 1e6, "peak memory, MB"))):
            axes = panels[row][column]
            for kind, found in part["layers"].items():
                limit = f", paper {PAPER[kind][1][name]}" if key == "seconds" else ""
                legend = f"{kind}: exponent {found['exponents'][key]:.2f}{limit}"
                axes.loglog(
                    part["sizes"], np.array(found[key]) / unit, "o-", color=COLOURS[kind], markersize=4, label=legend
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


def draw_paths(gradients: Mapping[str, Sequence], stacks: Sequence[int]) -> "Figure":
    """How much each output depends on each input, after one layer, two, ...; white: not at all."""
    figure = new_figure(2.4 * len(gradients) + 1, 2.4 * len(stacks) + 0.5)
    panels = figure.subplots(len(stacks), len(gradients), sharex=True, sharey=True)
    image = None
    for column, (name, pictures) in enumerate(gradients.items()):
        for row, (depth, picture) in enumerate(zip(stacks, pictures, strict=True)):
            axes, values = panels[row][column], np.array(picture)
            logs = np.log10(np.where(values > 0, values / values.max(), np.nan))
            image = axes.imshow(logs, cmap="viridis", vmin=-8, vmax=0)
            axes.set_title(name if row == 0 else "", fontsize=10)
            axes.set_ylabel(f"{depth} layer{'s' if depth > 1 else ''}\noutput t" if column == 0 else "")
            axes.set_xlabel("input s" if row == len(stacks) - 1 else "")
    bar = figure.colorbar(image, ax=panels, shrink=0.7)
    bar.set_label("log10 of |dy_t / dx_s|, the largest = 0; white: no path")
    return figure
