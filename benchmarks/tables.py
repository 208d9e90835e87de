"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
