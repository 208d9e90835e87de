"""Results as files: a table in Markdown, and everything as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def save_results(name: str, table: dict, text: str) -> None:
    """``table`` to results/NAME.json and ``text`` to results/NAME.md"""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
