"""The claims as text for a terminal, and as a page in Markdown or HTML.

The page in Markdown has no line numbers: it is committed, and would be out of date after almost every change.
"""

import html
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from minitransformer.paper.claims import FINDINGS, ROOT, Claim, Switch, as_in_toml, is_here, read_sections

TITLE = "The paper, claim by claim"
INTRODUCTION = (
    "Every equation and claim of *Attention Is All You Need*, sec. 3 to 6: the code that implements it and its most "
    "important line, tests, and measurements. A test fails if the code no longer does what the claim says; for a claim "
    "about what models learn it checks the code that measures this, and the finding says whether what was measured "
    "agrees with the paper. Config: the keys that concern the claim, with their defaults. `minitransformer paper` "
    "prints the same with line numbers; `minitransformer paper -o docs/paper.md` writes this page."
)
COLUMNS = ("claim", "code", "tests", "results")


class Link(NamedTuple):
    """What stands for a file of the checkout."""

    text: str
    file: str


Cell = list[str | Link]
"""What stands in a line, one after the other; a line break is ``"\\n"``."""
Block = tuple[str, int, Cell | list[list[Cell]]]
"""A heading of a level, a paragraph, or the rows of a table."""


def terminal_text(claims: Sequence[Claim], width: int) -> str:
    """The claims by sections; nothing but a path or a name that is longer extends beyond ``width`` columns."""
    lines = []
    for section, of_section in groupby(claims, key=lambda claim: claim.section):
        title = f"{section} {read_sections()[section]}"
        lines += [title, "-" * len(title)]
        for claim in of_section:
            lines += [*textwrap.wrap(claim.text, width), *_details(claim, width), ""]
    return "\n".join([*lines, *textwrap.wrap(summary(claims), width)])


def _details(claim: Claim, width: int) -> Iterator[str]:
    """A labelled line for each thing that there is to say about the claim, wrapped."""
    items = [("code", f"{file}:{line} {name}" if line else file) for file, name, line in claim.locations()]
    items += [("test", test) for test in claim.test]
    items += [("result", each.file) for each in claim.results()]
    items += [("config", _described(switch)) for switch in claim.switches()]
    items += [(label, text) for label in ("finding", "differs") if (text := getattr(claim, label))]
    items += [("open", text) for text in _missing(claim)]
    before = ""
    for label, text in items:
        first, rest = f"  {label if label != before else '':<8}", " " * 10
        if len(first) + len(text) > width:
            text = text.replace("::", ":: ")
        options = {"break_long_words": False, "break_on_hyphens": False}
        yield from textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, **options)
        before = label


def summary(claims: Sequence[Claim]) -> str:
    tested, measured = (sum(map(bool, each)) for each in zip(*((c.test, _there(c)) for c in claims), strict=True))
    counts = [sum(claim.finding == finding for claim in claims) for finding in FINDINGS]
    verbs = "agree", "agree in part", "do not agree", "do not decide"
    found = ", ".join(f"{n} {verb}" for n, verb in zip(counts, verbs, strict=True))
    n_open = sum(bool(_missing(claim)) for claim in claims)
    text = f"{len(claims)} claims: {tested} with tests, {measured} with measurements"
    return f"{text}, {n_open} open; {sum(counts)} of the measurements test the claim itself: {found}"


def _described(switch: Switch) -> str:
    key, paper, default, others = switch
    text = f"{key} = {as_in_toml(default)}, "
    text += "as in the paper" if default == paper else f"in the paper {as_in_toml(paper)}"
    return f"{text}; or {', '.join(others)}" if others else text


def _there(claim: Claim) -> list[str]:
    """The files that have its results."""
    return [each.file for each in claim.results() if not each.is_missing]


def markdown_page(claims: Sequence[Claim], folder: str | Path) -> str:
    """The page with links relative to ``folder``."""
    return "\n".join(_as_markdown(block, _address(folder)) for block in _blocks(claims, with_lines=False))


def html_page(claims: Sequence[Claim], folder: str | Path) -> str:
    """The page as one file without scripts, with line numbers, links relative to ``folder``."""
    body = "\n".join(_as_html(block, _address(folder)) for block in _blocks(claims, with_lines=True))
    return PAGE.format(title=TITLE, body=body)


def _blocks(claims: Sequence[Claim], with_lines: bool) -> Iterator[Block]:
    yield "heading", 1, [TITLE]
    yield "paragraph", 0, [INTRODUCTION]
    yield "paragraph", 0, [f"{summary(claims)}."]
    for section, of_section in groupby(claims, key=lambda claim: claim.section):
        yield "heading", 2, [f"{section} {read_sections()[section]}"]
        yield "table", 0, [[[each] for each in COLUMNS], *(_row(claim, with_lines) for claim in of_section)]
    yield "heading", 2, ["Config keys"]
    yield "table", 0, [[["key"], ["default"], ["in the paper"], ["other values"], ["sec."]], *_switches(claims)]
    yield "heading", 2, ["Open"]
    yield "table", 0, [[["claim"], ["open"], ["sec."]], *_open(claims)]


def _switches(claims: Sequence[Claim]) -> Iterator[list[Cell]]:
    for claim in claims:
        for key, paper, default, others in claim.switches():
            yield [
                [each]
                for each in (f"`{key}`", as_in_toml(default), as_in_toml(paper), ", ".join(others), claim.section)
            ]


def _open(claims: Sequence[Claim]) -> Iterator[list[Cell]]:
    for claim in claims:
        if missing := _missing(claim):
            yield [[claim.text], _in_lines(missing), [claim.section]]


def _missing(claim: Claim) -> list[str]:
    """What is open about the claim, in sentences."""
    lacking = [each for each in claim.results() if each.is_missing]
    missing = [
        f"{each.file} has no row {', '.join(each.missing_rows)} yet." if each.rows else f"There is no {each.file} yet."
        for each in lacking
    ]
    return [claim.open, *missing] if claim.open else missing


def _row(claim: Claim, with_lines: bool) -> list[Cell]:
    notes = [f"**Finding: {claim.finding}.**"] if claim.finding else []
    notes += [f"Config: {_described(switch)}." for switch in claim.switches()]
    notes += [f"Differs: {claim.differs}"] if claim.differs else []
    notes += [f"**Open:** {each}" for each in _missing(claim)]
    code = [
        Link(f"`{name or Path(file).name}`{f':{line}' if with_lines and line else ''}", file)
        for file, name, line in claim.locations()
    ]
    code += [f"`{claim.line.strip()}`"] if claim.line else []
    tests = [Link(_sentence(test), test.split("::")[0]) for test in claim.test]
    results = [Link(f"{Path(file).parent.name}/{Path(file).name}", file) for file in _there(claim)]
    return [_in_lines([claim.text, *notes]), *map(_in_lines, (code, tests, results))]


def _in_lines(items: Sequence[str | Link]) -> Cell:
    return [piece for item in items for piece in (item, "\n")][:-1]


def _sentence(test: str) -> str:
    """The name of a test, which is a sentence."""
    return test.split("::")[1].removeprefix("test_").replace("_", " ")


def _address(folder: str | Path) -> Callable[[str], str]:
    """The address of a file of the checkout in a page in ``folder``; empty if the file is not here."""
    try:
        root = Path(os.path.relpath(ROOT, folder)).as_posix()
    except ValueError:  # it is on another drive of Windows
        root = ROOT.as_uri()
    return lambda file: f"{root}/{file}" if is_here(file) else ""


def _is_code(text: str) -> bool:
    """Whether all of the text is code, in which no other mark has a meaning."""
    return len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]


def _as_markdown(block: Block, address: Callable[[str], str]) -> str:
    def cell(pieces: Cell) -> str:
        return "".join(map(piece, pieces))

    def piece(each: str | Link) -> str:
        if isinstance(each, Link):
            target = address(each.file)
            return f"[{each.text}]({target})" if target else each.text
        if _is_code(each):
            return each.replace("|", r"\|")
        return "<br>" if each == "\n" else each.replace("|", r"\|").replace("<", "&lt;").replace(" * ", r" \* ")

    kind, level, content = block
    if kind == "table":
        head, *rows = [f"| {' | '.join(map(cell, row))} |" for row in content]
        return "\n".join([head, "|" + "---|" * len(content[0]), *rows, ""])
    return f"{'#' * level} {cell(content)}\n".lstrip(" ")


def _as_html(block: Block, address: Callable[[str], str]) -> str:
    def cell(pieces: Cell) -> str:
        return "".join(map(piece, pieces))

    def piece(each: str | Link) -> str:
        if isinstance(each, Link):
            target, text = address(each.file), inline(each.text)
            return f'<a href="{html.escape(target)}">{text}</a>' if target else text
        return f"<code>{html.escape(each[1:-1])}</code>" if _is_code(each) else inline(each)

    def inline(text: str) -> str:
        text = html.escape(text, quote=False).replace("\n", "<br>")
        for mark, tag in (("`", "code"), (r"\*\*", "b"), (r"\*", "i")):
            text = re.sub(rf"{mark}(\w[^`*]*){mark}", rf"<{tag}>\1</{tag}>", text)
        return text

    kind, level, content = block
    if kind == "table":
        head, *rows = ["".join(f"<td>{cell(each)}</td>" for each in row) for row in content]
        head = head.replace("td>", "th>")
        return f"<table>\n<tr>{head}</tr>\n" + "".join(f"<tr>{row}</tr>\n" for row in rows) + "</table>"
    tag = f"h{level}" if level else "p"
    return f"<{tag}>{cell(content)}</{tag}>"


PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; width: 100%; table-layout: fixed; }}
th:first-child {{ width: 36%; }} th:last-child {{ width: 14%; }}
th, td {{ border: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: 0.4em 0.6em; }}
th, td {{ text-align: left; vertical-align: top; overflow-wrap: anywhere; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
