"""Scaled dot-product attention and multi-head attention with the shapes of a model  [Figure 2]."""

from typing import TYPE_CHECKING

from examples.paper.architecture_blocks import Shapes
from examples.paper.architecture_diagram import COLORS, Diagram
from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError
from minitransformer.figures.canvas import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START, BOX, GAP = 0.93, 0.36, 0.38
"""Inches: where the lowest boxes begin, height of a box, length of an arrow."""


def draw_multi_head_attention(config: ModelConfig, shapes: Shapes) -> "Figure":
    """The two pictures of Figure 2, with the shapes of the model's first attention layer; B, T and S stay letters.

    Raises:
        ConfigError: the model has no multi-head attention.
        MissingPackageError: matplotlib is not installed.
    """
    name = next((name.removesuffix(".w_q.weight") for name in shapes if name.endswith("attention.w_q.weight")), None)
    if name is None:
        raise ConfigError(
            "the model must have multi-head attention for Figure 2, "
            f"got model.kind {config.kind} with {config.n_layers} layers"
        )
    diagram = Diagram(10.0, 5.5)
    with drawing_style():
        w_q, w_kv, w_o = (shapes[f"{name}.{each}.weight"] for each in ("w_q", "w_kv", "w_o"))
        h = config.n_heads
        _draw_one_head(diagram, h, d_k=w_q[1] // h, d_v=w_o[0] // h)
        _draw_all_heads(diagram, h, w_q, w_kv, w_o)
    return diagram.figure


def _draw_one_head(diagram: Diagram, h: int, d_k: int, d_v: int) -> None:
    """Left: eq. 1, from the bottom to the top."""
    scores = f"(B, {h}, T, S)"
    diagram.text(2.2, 5.25, "Scaled Dot-Product Attention", 11, weight="bold")
    _input(diagram, 1.0, "Q", f"(B, {h}, T, {d_k})")
    _input(diagram, 2.1, "K", f"(B, {h}, S, {d_k})")
    _input(diagram, 3.4, "V", f"(B, {h}, S, {d_v})", length=5 * GAP + 4 * BOX)
    y = _box(diagram, 1.55, START, 1.6, "MatMul", "attention", scores)
    y = _box(diagram, 1.55, y, 1.6, f"Scale by 1 / sqrt({d_k})", "position", scores)
    y = _box(diagram, 1.55, y, 1.6, "Mask (optional): -inf", "embedding", scores)
    y = _box(diagram, 1.55, y, 1.6, "Softmax", "softmax", scores)
    _box(diagram, 2.2, y, 2.9, "MatMul", "attention", f"(B, {h}, T, {d_v})")


def _draw_all_heads(diagram: Diagram, h: int, w_q: tuple, w_kv: tuple, w_o: tuple) -> None:
    """Right: the projections for all heads, the heads, and W^O."""
    d, d_k, d_v = w_q[0], w_q[1] // h, w_o[0] // h
    diagram.text(7.1, 5.25, "Multi-Head Attention", 11, weight="bold")
    projections = (
        (5.5, "Q", "T", f"w_q {w_q}", d_k),
        (7.1, "K", "S", f"left {h * d_k} of w_kv {w_kv}", d_k),
        (8.7, "V", "S", f"right {h * d_v} of the same", d_v),
    )
    for x, letter, length, weights, width in projections:
        _input(diagram, x, letter, f"(B, {length}, {d})")
        y = _box(diagram, x, START, 1.5, f"Linear\n{weights}", "output", f"(B, {h}, {length}, {width})")
    for shift in (0.2, 0.1):
        diagram.box(4.8 + shift, y + shift, 4.6, BOX, COLORS["attention"])
    diagram.text(9.55, y + 0.72, f"h = {h}", 9, "left")
    y = _box(diagram, 7.1, y, 4.6, "Scaled Dot-Product Attention", "attention", f"(B, {h}, T, {d_v})", behind=0.2)
    y = _box(diagram, 7.1, y, 1.9, "Concat", "norm", f"(B, T, {w_o[0]})")
    _box(diagram, 7.1, y, 1.9, f"Linear\nw_o {w_o}", "output", f"(B, T, {w_o[1]})")


def _input(diagram: Diagram, x: float, name: str, shape: str, length: float = GAP) -> None:
    """An arrow of this length from the bottom, above the name and the shape of what comes in."""
    diagram.text(x, 0.4, name, 10, weight="bold")
    diagram.text(x, 0.2, shape)
    diagram.arrow((x, START - GAP), (x, START - GAP + length))


def _box(
    diagram: Diagram, x: float, y: float, width: float, label: str, role: str, shape: str, behind: float = 0.0
) -> float:
    """A box around ``x`` and the arrow out of it, with the shape of its output; returns where the arrow ends.

    behind: how far boxes behind this one stand out above it
    """
    diagram.box(x - width / 2, y, width, BOX, COLORS[role])
    diagram.text(x, y + BOX / 2, label, 6.5)
    y += BOX + behind + GAP
    diagram.arrow((x, y - GAP), (x, y))
    diagram.text(x + 0.06, y - GAP / 2, shape, 6.5, "left")
    return y
