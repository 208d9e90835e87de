"""Verdicts: which ones a notebook's cells mean to print, and which ones they printed."""

import ast
import re
from typing import Any

LINE = re.compile(r"^.*: (right|wrong|not yet)(?:\.| in input |$).*", re.MULTILINE | re.IGNORECASE)
"""The line of ``check`` or ``check_gradient`` that holds a verdict."""
TAG = "expects-"


def calls(source: str, function: str) -> list[ast.Call]:
    """Every ``function(...)`` in a cell's source."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [node for node in nodes if isinstance(node.func, ast.Name) and node.func.id == function]


def meant(cell: Any, solved: bool) -> list[str]:
    """The verdicts that a cell means to print, in order.

    Each ``check_gradient`` and each ``transplant`` says right, unless a tag of the cell lists what is said instead:
    ``expects-right-wrong``. Each ``check`` says "not yet", or right in a notebook whose exercises are ``solved``.
    """
    gradients = ["right"] * sum(len(calls(cell["source"], name)) for name in ("check_gradient", "transplant"))
    for tag in cell["metadata"].get("tags", []):
        if tag.startswith(TAG):
            gradients = tag.removeprefix(TAG).split("-")
    return gradients + ["right" if solved else "not yet"] * len(calls(cell["source"], "check"))


def unmeant_verdicts(cells: list, solved: bool) -> list[str]:
    """A text for each cell of an executed notebook that did not print the verdicts that it means to."""
    faults = []
    for i, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            expected = meant(cell, solved)
            printed = "".join(output.get("text", "") for output in cell["outputs"])
            found = list(LINE.finditer(printed))
            if [line[1].lower() for line in found] != expected:
                said = "".join(f"\n  {line[0]}" for line in found)
                must = ", ".join(expected) or "nothing"
                faults.append(f"cell {i} (counted from 0) must say {must}; it says:{said or ' nothing'}")
    return faults
