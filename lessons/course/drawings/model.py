"""Drawings of the whole model: Figures 1 and 2, the shift, cross-attention, and what moves through the layers."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course.exercise import LESSONS
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer


def draw_figure_1(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Figure:
    """Figure 1 of a model of this config, with shapes and counts."""
    with checkout_on_the_path():
        from examples.paper.architecture_diagram import draw_architecture
    return draw_architecture(config, shapes or Transformer.parameter_shapes(config))


def draw_figure_2(config: ModelConfig) -> Figure:
    """Figure 2 of a model of this config, with the shapes of its first attention."""
    with checkout_on_the_path():
        from examples.paper.attention_diagram import draw_multi_head_attention
    return draw_multi_head_attention(config, Transformer.parameter_shapes(config))


def checkout_on_the_path() -> AbstractContextManager:
    """For imports of ``examples/paper``: a checkout has it, an installation not."""
    return patch.object(sys, "path", [*sys.path, str(LESSONS.parent)])


def draw_own_figure_1(shapes: Mapping[str, tuple[int, ...]], n_layers: int, n_heads: int) -> Figure:
    """Figure 1 of the parameters of ``my_transformer``, under the names that its program knows."""
    known = {"table": "embedding", "self": "self_attention", "cross": "cross_attention"}
    known |= {name: f"feed_forward.{name}" for name in ("w1", "b1", "w2", "b2")}
    sublayers = {"encoder": ("self_attention", "feed_forward")}
    sublayers["decoder"] = ("self_attention", "cross_attention", "feed_forward")
    renamed = {}
    for name, shape in shapes.items():
        place, rest = name.split()[:2], name.split()[2:]
        if name in known:
            path = [known[name]]
        elif rest[0] in ("gamma", "beta"):
            path = [*place[:1], "layers", place[1], f"{sublayers[place[0]][int(rest[1])]}_residual.norm", rest[0]]
        else:
            path = [*place[:1], "layers", place[1], known[rest[0]], *rest[1:]]
        renamed[".".join(path)] = shape
    vocab_size, d_model = shapes["table"]
    sizes = {"n_layers": n_layers, "n_heads": n_heads, "d_ff": shapes["encoder 0 b1"][0]}
    return draw_figure_1(ModelConfig(vocab_size=vocab_size, d_model=d_model, **sizes), renamed)


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str, gray: str = "1") -> None:
    """A rectangle around (x, y) with text in it."""
    axes.add_patch(plt.Rectangle((x - width / 2, y - height / 2), width, height, facecolor=gray, edgecolor="k"))
    axes.text(x, y, text, ha="center", va="center", fontsize=9)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], style: str = "-") -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "linestyle": style, "color": "k", "linewidth": 0.9})


def draw_shift(words: Sequence[str]) -> None:
    """What each position of the decoder reads, may attend to, and must predict, when the target is fed in."""
    reads, says = ["begin", *words], [*words, "end"]
    n = len(reads)
    figure, axes = plt.subplots(figsize=(1.5 * n + 2.2, 3.6), layout="constrained")
    for t in range(n):
        box(axes, t, 2.9, 0.8, 0.4, says[t], "0.85")
        box(axes, t, 0, 0.8, 0.4, reads[t])
        for s in range(n):
            place = t - 0.3 + 0.6 * s / (n - 1), 1.45
            open_ = s <= t
            axes.plot(*place, "ks", markersize=9, markerfacecolor="0.35" if open_ else "1", markeredgewidth=0.8)
        arrow(axes, (t, 0.22), (t, 1.25))
        arrow(axes, (t, 1.65), (t, 2.68))
        if t:
            arrow(axes, (t - 0.6, 2.68), (t - 0.12, 0.22), "--")
    for y, text in ((2.9, "must predict"), (1.45, "may attend to\n(filled)"), (0, "reads")):
        axes.text(-0.75, y, text, ha="right", va="center", fontsize=9)
    axes.set(xlim=(-1.9, n - 0.4), ylim=(-0.75, 3.3))
    axes.text(n / 2 - 0.5, -0.55, "dashed: the target itself comes back as input, one position later", ha="center")
    axes.axis("off")
    plt.show()


def draw_cross_attention(n_tgt: int, n_src: int, d_model: int, d_k: int) -> None:
    """Which tensor of cross-attention comes from which side: white from the decoder, gray from the memory."""
    figure, axes = plt.subplots(figsize=(9, 3.9), layout="constrained")
    unit = 0.16  # of height, for each position
    shape = {"x": (n_tgt, d_model), "memory": (n_src, d_model), "Q": (n_tgt, d_k), "K": (n_src, d_k), "V": (n_src, d_k)}
    shape |= {"weights": (n_tgt, n_src), "y": (n_tgt, d_k)}
    side = {"memory": "0.8", "K": "0.8", "V": "0.8"}
    place = {"x": (0, 3), "memory": (0, 0.6), "Q": (2.2, 3), "K": (2.2, 1.4), "V": (2.2, 0), "weights": (4.4, 2.3)}
    place["y"] = (6.6, 1.3)
    half = {}
    for name, (x, y) in place.items():
        rows, columns = shape[name]
        width, height = 0.5 + 0.09 * columns, unit * rows + 0.15
        half[name] = width / 2
        label = f"{name}\n({rows}, {columns})"
        box(axes, x, y, width, height, label, side.get(name, "1"))
    lines = (("x", "Q", "$W^Q$"), ("memory", "K", "$W^K$"), ("memory", "V", "$W^V$"), ("Q", "weights", ""))
    for start, end, text in (*lines, ("K", "weights", ""), ("weights", "y", ""), ("V", "y", "")):
        (x0, y0), (x1, y1) = place[start], place[end]
        arrow(axes, (x0 + half[start], y0), (x1 - half[end], y1))
        axes.text((x0 + x1) / 2, (y0 + y1) / 2 + 0.18, text, ha="center", fontsize=9)
    axes.text(4.4, 3.05, "softmax of $QK^T/\\sqrt{d_k}$,\na row for each target position", ha="center", fontsize=9)
    axes.text(6.6, 1.95, "weights times V", ha="center", fontsize=9)
    axes.text(0, 3.75, "decoder", ha="center")
    axes.text(0, -0.35, "encoder's output", ha="center")
    axes.set(xlim=(-0.9, 7.4), ylim=(-0.7, 4))
    axes.axis("off")
    plt.show()


def draw_strips(rows: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Gray images side by side: the rows of the picture by name, in each the arrays (T, width) by name."""
    widths = [max(4, array.shape[1]) for array in next(iter(rows.values())).values()]
    figure, panels = plt.subplots(
        len(rows), len(widths), figsize=(10, 1.9 * len(rows)), width_ratios=widths, squeeze=False, layout="constrained"
    )
    for i, (name, arrays) in enumerate(rows.items()):
        for panel, (title, array) in zip(panels[i], arrays.items(), strict=True):
            spread = np.abs(array).max()
            panel.imshow(array, cmap="Greys", vmin=-spread, vmax=spread, aspect="auto", interpolation="nearest")
            panel.set(xticks=[], yticks=[])
            panel.set_title(title if i == 0 else "", fontsize=9)
            panel.set_xlabel(f"{array.shape[1]} numbers" if i == len(rows) - 1 else "", fontsize=8)
        panels[i, 0].set_ylabel(f"{name}\nposition", fontsize=9)
    plt.show()
