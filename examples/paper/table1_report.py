"""Table 1 as measured, beside the paper's: the Markdown table and the two pictures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {
    "self-attention": ("O(n² d)", (2, 1), "O(1)", "O(1)"),
    "recurrent": ("O(n d²)", (1, 2), "O(n)", "O(n)"),
    "convolutional": ("O(k n d²)", (1, 2), "O(1)", "O(log_k n)"),
    "restricted": ("O(r n d)", (1, 1), "O(1)", "O(n / r)"),
}
"""(complexity per layer, its exponents of n and d, sequential operations, maximum path length)  [Table 1]"""

FAR = 0.2
"""Exponents that differ by more than this are named as different."""

COLOURS = {"self-attention": "#0072b2", "recurrent": "#d55e00", "convolutional": "#009e73", "restricted": "#cc79a7"}


def markdown(result: Mapping) -> str:
    """Each row of Table 1 with what was measured."""
    facts, n, d = result["machine"], result["n"], result["d"]
    lines = [
        "# Table 1, measured",
        "",
        agreement(result),
        "",
        "`python examples/paper/table1.py`",
        "",
        "Exponents of seconds and bytes, forward and backward, over the three largest sizes:"
        f" n to {n['sizes'][-1]:,} with d = {n['other']}, d to {d['sizes'][-1]:,} with n = {d['other']};"
        f" batch {result['batch']}, k = {result['k']}, r = {result['r']}. One thread of {facts['processor']}, NumPy"
        f" {facts['NumPy']}, commit {facts['commit']}.",
        "",
        "| layer | paper | time: n | time: d | memory: n | memory: d |",
        "|---|---|---|---|---|---|",
    ]
    for kind, (complexity, (of_n, of_d), _, _) in PAPER.items():
        time_n, time_d = (part["layers"][kind]["exponents"]["seconds"] for part in (n, d))
        bytes_n, bytes_d = (part["layers"][kind]["exponents"]["bytes"] for part in (n, d))
        lines.append(
            f"| {kind} | {complexity} | {time_n:.2f} (paper: {of_n}) | {time_d:.2f} (paper: {of_d}) | {bytes_n:.2f} | "
            f"{bytes_d:.2f} |"
        )
    if n["crossing"]:
        lines += ["", f"At d = {n['other']}, self-attention is faster than the GRU up to n = {n['crossing']:.0f}."]
    return "\n".join([*lines, "", *paths_table(result)]) + "\n"


def paths_table(result: Mapping) -> list[str]:
    """Sequential operations and path lengths, at growing n."""
    lengths = result["paths"]["lengths"]
    heads = [f"n = {length}" for length in lengths]
    lines = [
        "Sequential operations: matrix products of a forward pass that are computed one after another. Path length:"
        f" layers until the last output depends on the first input, by the gradient (r = {result['paths']['r']}); in"
        " the GRU one layer is enough, but the path goes through all n states.",
        "",
        f"| layer | products | {' | '.join(heads)} | layers | {' | '.join(heads)} |",
        "|" + "---|" * (3 + 2 * len(heads)),
    ]
    for name, needed in result["paths"]["layers"].items():
        _, _, sequential, path = PAPER[name.split(",")[0]]
        products = result["products"].get(name, result["products"][name.split(",")[0]])
        path = "O(n / k)" if name == "convolutional" else path  # kernels without gaps  [sec. 4]
        lines.append(
            f"| {name} | {sequential} | {' | '.join(map(str, products))} | {path} | {' | '.join(map(str, needed))} |"
        )
    return lines


def agreement(result: Mapping) -> str:
    """One sentence: which exponents of time are the paper's, and which are not."""
    far = []
    for index, name in enumerate(("n", "d")):
        for kind, found in result[name]["layers"].items():
            measured, limit = found["exponents"]["seconds"], PAPER[kind][1][index]
            if abs(measured - limit) > FAR:
                far.append(f"{kind} in {name}, {measured:.2f} instead of {limit}")
    if not far:
        return f"All exponents of time are within {FAR} of the paper's."
    return (
        f"The exponents of time are within {FAR} of the paper's, except: {'; '.join(far)}. At these sizes, some arrays"
        " no longer fit the processor's caches, which the paper does not count."
    )


def draw_growth(result: Mapping) -> "Figure":
    """Seconds and megabytes against n and d, log-log, a line for each kind."""
    figure = new_figure(10, 7.5)
    panels = figure.subplots(2, 2)
    names = {"n": "length n, positions", "d": "width d"}
    for column, (name, label) in enumerate(names.items()):
        part = result[name]
        for row, (key, unit, what) in enumerate((("seconds", 1.0, "seconds"), ("bytes", 1e6, "peak memory, MB"))):
            axes, index = panels[row][column], ("n", "d").index(name)
            for kind, found in part["layers"].items():
                limit = f", paper {PAPER[kind][1][index]}" if key == "seconds" else ""
                legend = f"{kind}: exponent {found['exponents'][key]:.2f}{limit}"
                axes.loglog(
                    part["sizes"], np.array(found[key]) / unit, "o-", color=COLOURS[kind], markersize=4, label=legend
                )
            axes.set_xticks(part["sizes"], [f"{size:,}" for size in part["sizes"]], fontsize=8)
            axes.minorticks_off()
            axes.grid(True, color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False, fontsize=8)
            axes.set_ylabel(f"{what}, forward and backward")
            other = f"{'d' if name == 'n' else 'n'} = {part['other']}"
            axes.set_xlabel(f"{label} ({other}, batch {result['batch']})")
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
