"""The claims of the paper as `claims.toml` lists them, and where the checkout has the code that implements each."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.settings import describe, read_toml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "minitransformer"


class Location(NamedTuple):
    """file: relative to `ROOT`   name: qualified, empty for a whole file   line: from 1, and 0 for a whole file"""

    file: str
    name: str
    line: int


class Switch(NamedTuple):
    """A config key whose default is what the paper does, or is not.

    paper, default: its values   others: the other values that it may have, empty where that is a matter of range
    """

    key: str
    paper: Any
    default: Any
    others: tuple[str, ...]


class Result(NamedTuple):
    """A file of measurements, and the rows of its table that are meant; no rows: all of it."""

    file: str
    rows: list[str]

    @property
    def missing_rows(self) -> list[str]:
        """Those that the file does not have yet; a file that is not there has none."""
        path = ROOT / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [row for row in self.rows if f"| {row} |" not in text]

    @property
    def is_missing(self) -> bool:
        """Whether it, or a row, is not yet there."""
        return not (ROOT / self.file).exists() or bool(self.missing_rows)


FINDINGS = ("agrees", "agrees in part", "does not agree", "open")
"""How what was measured here compares with the paper; open: it does not decide."""


@dataclass(frozen=True)
class Claim:
    """One equation or claim of the paper.

    section: of the paper   text: the claim in the project's own words
    code: what implements it: qualified names within the package, such as ``optim.adam.Adam``, or files
    line: a part of the one line of this code that matters most   becomes: what in its place a test would notice
    test: tests that fail if code and paper part, as pytest calls them
    result: files of measurements; FILE#C1,C2: what the table in the file has in the rows of these names
    finding: one of `FINDINGS`, for a result that is a measurement of the claim itself
    switch: config keys that concern it, with the paper's values
    differs: what the project does otherwise, without a switch   open: what is neither implemented nor shown
    """

    section: str
    text: str
    code: list[str] = field(default_factory=list)
    line: str = ""
    becomes: str = ""
    test: list[str] = field(default_factory=list)
    result: list[str] = field(default_factory=list)
    finding: str = ""
    switch: dict[str, Any] = field(default_factory=dict)
    differs: str = ""
    open: str = ""

    def locations(self) -> list[Location]:
        """Where its code is, in the same order: the line that has ``line``, or else the one that defines the name.

        Raises:
            ConfigError: the package has no such name.
        """
        spans = [_span(each) for each in self.code]
        found = [(i, n) for i, span in enumerate(spans) for n in _lines_with(self.line, span)] if self.line else []
        line_of = dict(found) if len(found) == 1 else {}  # not there once: the place of the definition is shown
        return [Location(file, name, line_of.get(i, first)) for i, (file, name, first, _) in enumerate(spans)]

    def results(self) -> list[Result]:
        parts = (each.partition("#")[::2] for each in self.result)
        return [Result(file, rows.split(",") if rows else []) for file, rows in parts]

    def switches(self) -> list[Switch]:
        known = {key: (kind, default) for key, kind, default, _ in describe(Config)}
        found = []
        for key, paper in self.switch.items():
            kind, default = known[key]
            choices = kind.split("|") if "|" in kind else {"bool": ["true", "false"]}.get(kind, [])
            others = tuple(each for each in choices if each != as_in_toml(default))
            found.append(Switch(key, paper, default, others))
        return found


def as_in_toml(value: object) -> str:
    """A value of a config as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _table() -> dict:
    return read_toml(Path(__file__).with_name("claims.toml"))


def read_sections() -> dict[str, str]:
    """The title of each section of the paper by its number."""
    return _table()["section"]


def read_claims() -> list[Claim]:
    """All claims in the order of the paper."""
    return [Claim(**each) for each in _table()["claim"]]


Span = tuple[str, str, int, int]
"""File, qualified name, first and last line; both 0 for a whole file."""


def _span(code: str) -> Span:
    if "/" in code:
        return code, "", 0, 0
    path, parts = PACKAGE, code.split(".")
    while (path / parts[0]).is_dir():
        path /= parts.pop(0)
    path = path / f"{parts.pop(0)}.py"
    node = _parse(path)
    for name in parts:
        node = next((each for each in node.body if name in _defined(each)), None)
        if node is None:
            raise ConfigError(f"claims.toml: {code} must be a name of the package, got no {name}; change claims.toml")
    return path.relative_to(ROOT).as_posix(), ".".join(parts), node.lineno, node.end_lineno


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _defined(node: ast.stmt) -> Iterable[str]:
    """The names that a statement defines."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return {getattr(target, "name", getattr(target, "id", "")) for target in targets}


def _lines_with(text: str, span: Span) -> list[int]:
    file, _, first, last = span
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [n for n in range(first or 1, (last or len(lines)) + 1) if text in lines[n - 1]]
