"""Lesson 17: an all-reduce round a ring, step by step."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def draw_ring(n_ranks: int = 4) -> Figure:
    """One panel for the start and for each step: a row for each rank, a column for each slice, and in each cell the
    ranks whose numbers have been summed there. What came in this step has a thick edge."""
    held = [[{rank} for _ in range(n_ranks)] for rank in range(n_ranks)]
    n_steps = 2 * (n_ranks - 1)
    figure, panels = plt.subplots(2, n_ranks, figsize=(2.5 * n_ranks, 5.2), layout="constrained")
    panels = list(panels[0]) + list(panels[1])
    draw_cells(panels[0], held, received=set())
    panels[0].set_title("at the start", fontsize=9)
    for step in range(n_steps):
        sent = [(rank, (rank - step) % n_ranks) for rank in range(n_ranks)]
        messages = [held[rank][i] for rank, i in sent]
        received = set()
        for (rank, i), message in zip(sent, messages, strict=True):
            receiver = (rank + 1) % n_ranks
            held[receiver][i] = message | held[receiver][i]
            received.add((receiver, i))
        panel = panels[step + 1]
        draw_cells(panel, held, received)
        panel.set_title(f"step {step}: {'add' if step < n_ranks - 1 else 'copy'}", fontsize=9)
    panels[-1].axis("off")
    marks = [Rectangle((0, 0), 1, 1, facecolor=gray(size, n_ranks), edgecolor="k") for size in range(1, n_ranks + 1)]
    panels[-1].legend(marks, [f"sum of {size}" for size in range(1, n_ranks)] + ["complete"], loc="center")
    return figure


def gray(size: int, n_ranks: int) -> str:
    """The more ranks a sum holds, the darker."""
    return f"{1.0 - 0.75 * (size - 1) / (n_ranks - 1):.2f}"


def draw_cells(panel: Axes, held: list[list[set[int]]], received: set[tuple[int, int]]) -> None:
    n = len(held)
    for rank, row in enumerate(held):
        for i, ranks in enumerate(row):
            is_new = (rank, i) in received
            style = {"facecolor": gray(len(ranks), n), "edgecolor": "k", "linewidth": 2.5 if is_new else 0.6}
            panel.add_patch(Rectangle((i, rank), 1, 1, zorder=1 + is_new, **style))
            text = "all" if len(ranks) == n else "+".join(map(str, sorted(ranks)))
            panel.text(
                i + 0.5,
                rank + 0.5,
                text,
                ha="center",
                va="center",
                fontsize=7,
                zorder=3,
                color="w" if len(ranks) > n / 2 else "k",
            )
    panel.set(xlim=(-0.05, n + 0.05), ylim=(n + 0.05, -0.05), aspect="equal")
    panel.set_xticks([i + 0.5 for i in range(n)], [f"slice {i}" for i in range(n)], fontsize=7)
    panel.set_yticks([i + 0.5 for i in range(n)], [f"rank {i}" for i in range(n)], fontsize=7)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
