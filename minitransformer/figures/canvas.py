"""Creates matplotlib Figures and writes them as PNG or SVG, without a display or the global state of pyplot."""

import io
import re
import unicodedata
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

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

MISSING = re.compile(r"Glyph (\d+) .*missing from")
"""Matplotlib's warning about a letter, which it draws as a box."""
EAST_ASIAN = ("HANGUL", "CJK", "HIRAGANA", "KATAKANA")
"""How the Unicode names of the letters of Noto Sans CJK begin."""

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


def drawing_style(settings: Mapping[str, Any] | None = None) -> AbstractContextManager:
    """Within the block text is set in the `known_fonts`, and matplotlib has these settings."""
    import matplotlib

    return matplotlib.rc_context({"font.family": known_fonts(), **(settings or {})})


def picture_bytes(figure: "Figure", file_format: str = "png") -> bytes:
    """The figure as the bytes of a ``png`` or ``svg`` file; the same figure gives the same bytes.

    Text stays text in an SVG, so that it can be searched and is drawn in the reader's fonts. In a PNG, letters that are
    missing from all fonts here become boxes; one UserWarning says so.
    """
    import matplotlib

    stream = io.BytesIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "minitransformer"}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        figure.savefig(stream, format=file_format, metadata={"Date": None} if file_format == "svg" else None)
    missing = set()
    for warning in caught:
        if letter := MISSING.match(str(warning.message)):
            missing.add(chr(int(letter[1])))
        else:
            warnings.warn(warning.message, stacklevel=2)
    if missing and file_format != "svg":
        warnings.warn(_about_fonts(sorted(missing)), stacklevel=2)
    return stream.getvalue()


def _about_fonts(missing: list[str]) -> str:
    """One line about the letters that no font of `known_fonts` has."""
    import matplotlib

    remedy = "write an SVG file, which is drawn in its reader's fonts"
    if any(unicodedata.name(letter, "").startswith(EAST_ASIAN) for letter in missing):
        remedy = f"install Noto Sans CJK and delete {matplotlib.get_cachedir()}/fontlist-*.json, or {remedy}"
    shown = " ".join(missing[:10]) + (" ..." if len(missing) > 10 else "")
    return f"an installed font must have each letter, got none for {shown}, which became boxes; {remedy}"
