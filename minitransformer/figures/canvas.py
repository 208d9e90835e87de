"""An empty matplotlib Figure, and a Figure as PNG. No display and no global state: nothing of pyplot is touched."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from minitransformer.errors import MissingPackageError, install_hint

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
"""Looked through in this order for each character; those that the machine lacks are left out."""

DOTS_PER_INCH = 150
MOST_DOTS = 12_000
"""Longer side of a picture, dots, at most: attention over a very long sentence gets coarser, not gigabytes large."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size (inches), laid out so that labels do not overlap.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError(f"plot: matplotlib must be installed; {install_hint('plot')}") from error
    dots_per_inch = min(DOTS_PER_INCH, MOST_DOTS / max(width, height))
    return Figure(figsize=(width, height), dpi=dots_per_inch, layout="constrained")


def known_fonts() -> list[str]:
    """Those of ``FONTS`` that this machine has."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in FONTS if name in installed]


def png_bytes(figure: Figure) -> bytes:
    """The picture as a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()
