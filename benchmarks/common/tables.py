"""Results as files: a table in Markdown, and everything as JSON."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_head(cells: Sequence[str]) -> list[str]:
    """The head of a table and the line under it."""
    return [markdown_row(cells), markdown_row(["---"] * len(cells))]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [*markdown_head(head), *map(markdown_row, rows)]


def facts_list(facts: dict) -> list[str]:
    """What the figures depend on, as a list."""
    return [f"- {name}: {value}" for name, value in facts.items()]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and extremes."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def save_results(name: str, table: dict, text: str, picture: bytes = b"") -> None:
    """``table`` to results/NAME.json, ``text`` to results/NAME.md, and a picture to results/NAME.png."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    if picture:
        (RESULTS / f"{name}.png").write_bytes(picture)
