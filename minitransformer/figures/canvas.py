"""Creates matplotlib Figures and writes them as PNG or SVG, without a display or the global state of pyplot."""

import io
from typing import TYPE_CHECKING

from minitransformer.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
)
"""Tried in this order for each character; fonts that are not installed are skipped."""

DOTS_PER_INCH = 150
MAX_DOTS = 12_000
"""Maximum of the longer side in dots: a very long sentence gets a coarser picture, not one of gigabytes."""


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size (inches) whose layout avoids overlapping labels.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    figure = require("matplotlib.figure", "plot", "plot")
    dots_per_inch = min(DOTS_PER_INCH, MAX_DOTS / max(width, height))
    return figure.Figure(figsize=(width, height), dpi=dots_per_inch, layout="constrained")


def known_fonts() -> list[str]:
    """The fonts of ``FONTS`` that are installed."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in FONTS if name in installed]


def picture_bytes(figure: "Figure", file_format: str = "png") -> bytes:
    """The figure as the bytes of a ``png`` or ``svg`` file; the same figure gives the same bytes.

    Text stays text in an SVG, so that it can be searched and is drawn in the reader's fonts.
    """
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minitransformer"}):
        figure.savefig(stream, format=file_format, metadata={"Date": None} if file_format == "svg" else None)
    return stream.getvalue()


def png_bytes(figure: "Figure") -> bytes:
    """The figure as the bytes of a PNG file."""
    return picture_bytes(figure, "png")
