"""Boxes and arrows, in inches from the lower left corner, and the picture of a model made of them."""

import math
import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from examples.paper.architecture_blocks import Block, Column, Layers, Shapes, columns_of
from minitransformer.config import ModelConfig
from minitransformer.figures.canvas import drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {
    "embedding": "#fbe0e2",
    "position": "#ffffff",
    "attention": "#ffe2bb",
    "norm": "#f2f4c1",
    "feed_forward": "#c2e8f7",
    "output": "#dcdfee",
    "softmax": "#cbe7cf",
}
"""The colors of Figure 1."""
WIDTH, MARGIN, GAP, LINE = 4.4, 0.55, 0.17, 0.135
"""Inches: width of a box, space on each side of it for residual connections, space between boxes, a line of text."""
LETTERS = 66
"""Characters in a line of a box."""


class Diagram:
    """A figure of this size on which boxes are drawn, and lines that end in an arrow."""

    def __init__(self, width: float, height: float):
        self.figure = new_figure(width, height)
        self.figure.set_layout_engine("none")
        self.axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
        self.axes.axis("off")

    def box(self, x: float, y: float, width: float, height: float, color: str, behind: bool = False) -> None:
        """A box whose lower left corner is (x, y); ``behind``: the frame of what is drawn on it."""
        from matplotlib.patches import FancyBboxPatch

        style = {"facecolor": color, "edgecolor": "#333333", "linewidth": 0.8, "zorder": 1 if behind else 2}
        shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.05", **style)
        self.axes.add_patch(shape)

    def text(self, x: float, y: float, text: str, size: float = 7, align: str = "center", **style) -> None:
        """Text around (x, y), or beginning or ending there (``align``: left, right)."""
        self.axes.text(x, y, text, ha=align, va="center", fontsize=size, zorder=4, parse_math=False, **style)

    def arrow(self, *points: tuple[float, float]) -> None:
        """A line through the points, with a head at the last one."""
        self.axes.plot(*zip(*points, strict=True), color="#333333", linewidth=0.8, zorder=3)
        style = {"arrowstyle": "-|>,head_width=0.15,head_length=0.3", "color": "#333333", "linewidth": 0.8}
        style |= {"shrinkA": 0, "shrinkB": 0}
        self.axes.annotate("", points[-1], points[-2], arrowprops=style, zorder=3)


def draw_architecture(config: ModelConfig, shapes: Shapes) -> "Figure":
    """The whole model as in Figure 1, with the names, shapes and counts of its parameters.

    Raises:
        ConfigError: the model is of a kind that cannot be drawn.
        MissingPackageError: matplotlib is not installed.
    """
    columns = columns_of(config, shapes)
    pitch = WIDTH + 2 * MARGIN
    height = max(sum(_height(part) + GAP for part in column.parts) for column in columns) + 1.6
    diagram = Diagram(len(columns) * pitch, height)
    with drawing_style():
        total = sum(map(math.prod, shapes.values()))
        diagram.text(0.3, height - 0.25, f"{config.kind}: {total:,} parameters", 11, "left", weight="bold")
        encoder_end = None
        for number, column in enumerate(columns):
            drawer = _ColumnDrawer(
                diagram, number * pitch + MARGIN, outside=-1 if number == 0 else 1, memory=encoder_end
            )
            encoder_end = drawer.draw(column)
    return diagram.figure


def _rows(block: Block) -> list[str]:
    """The lines of a box below its title: the note, then names and shapes of the parameters."""
    shared = os.path.commonprefix(list(block.parameters)).rpartition(".")[0]
    names = {name.removeprefix(f"{shared}."): shape for name, shape in block.parameters.items()}
    shapes = [f"{name} {shape}".replace(" ", "\xa0") for name, shape in names.items()]
    lines = textwrap.wrap("  ".join(shapes), LETTERS, break_long_words=False, break_on_hyphens=False)
    return [block.note] * bool(block.note) + lines


def _height(part: Block | Layers) -> float:
    if isinstance(part, Layers):
        return sum(_height(block) + GAP for block in part.blocks) + 1.5 * GAP
    return LINE * (len(_rows(part)) + 1) + 0.1


def _count(blocks: Sequence[Block]) -> int:
    return sum(math.prod(shape) for block in blocks for shape in block.parameters.values())


class _ColumnDrawer:
    """Draws the parts of one column, each above the previous one.

    left: where its boxes begin   outside: the side of residual connections, -1 left or 1 right
    memory: where the arrow from the encoder begins
    """

    def __init__(self, diagram: Diagram, left: float, outside: int, memory: tuple[float, float] | None):
        self.diagram, self.left, self.outside, self.memory = diagram, left, outside, memory
        self.middle, self.y = left + WIDTH / 2, 0.45
        self.entries: list[float] = []  # the height at which the arrow into each block begins

    def draw(self, column: Column) -> tuple[float, float]:
        """Returns where the arrow that leaves the column ends."""
        self.diagram.text(self.middle, self.y - 0.2, column.source, 8)
        for part in column.parts:
            if isinstance(part, Layers):
                self._draw_layers(part)
            else:
                self._draw_block(part)
        end = (self.middle, self.y + 0.3)
        self.diagram.arrow((self.middle, self.y), end)
        self.diagram.text(self.middle, self.y + 0.42, column.result, 8)
        return end

    def _draw_layers(self, layers: Layers) -> None:
        bottom, height = self.y + GAP, _height(layers)
        self.diagram.box(self.left - 0.4, bottom, WIDTH + 0.8, height, "#f5f5f5", behind=True)
        each = f"{layers.count} × {_count(layers.blocks):,} parameters"
        self.diagram.text(self.left + WIDTH, bottom + height - 0.12, each, 8, "right", weight="bold")
        for number, block in enumerate(layers.blocks):
            self._draw_block(block, GAP if number else 2 * GAP)
        self.y = bottom + height

    def _draw_block(self, block: Block, gap: float = GAP) -> None:
        bottom, height, rows = self.y + gap, _height(block), _rows(block)
        self.entries.append(bottom - 0.6 * GAP)
        self.diagram.arrow((self.middle, self.y), (self.middle, bottom))
        self.diagram.box(self.left, bottom, WIDTH, height, COLORS[block.role])
        line = bottom + height - 0.05 - LINE / 2
        self.diagram.text(self.left + 0.1, line, block.title, 8, "left", weight="bold")
        if block.parameters:
            self.diagram.text(self.left + WIDTH - 0.1, line, f"{_count([block]):,}", 7.5, "right")
        for number, row in enumerate(rows, 1):
            self.diagram.text(self.left + 0.1, line - number * LINE, row, 7, "left")
        middle = bottom + height / 2
        if block.bypassed:
            side = self.left if self.outside < 0 else self.left + WIDTH
            begin, x = self.entries[-1 - block.bypassed], side + 0.22 * self.outside
            self.diagram.arrow((self.middle, begin), (x, begin), (x, middle), (side, middle))
        if block.reads_encoder:
            x, y = self.left - MARGIN, self.memory[1]
            self.diagram.arrow(self.memory, (x, y), (x, middle), (self.left, middle))
        self.y = bottom + height
