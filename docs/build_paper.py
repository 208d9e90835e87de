"""Write docs/paper.md: which code implements each claim of the paper, which test checks it, and what was measured.

    python -m docs.build_paper

The page has no line numbers, since they would be out of date after almost every change.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from docs.claims import FINDINGS, ROOT, Claim, Switch, as_in_toml, read_claims, read_sections
from minitransformer.cli.main import Parser

INTRODUCTION = (
    "Every equation and claim of *Attention Is All You Need*, sec. 3 to 6, with the code that implements it, the most "
    "important line of that code, tests, and measurements. A test fails if the code no longer does what the claim "
    "says. For a claim about what models learn, the test checks the code of the measurement, and the finding says "
    "whether the measurement agrees with the paper. Config lists the keys that concern the claim, with their defaults. "
    "`python -m docs.build_paper` writes this page."
)
COLUMNS = ("claim", "code", "tests", "results")


def paper_page(claims: Sequence[Claim]) -> str:
    """The text of docs/paper.md."""
    blocks = ["# The paper, claim by claim", INTRODUCTION, f"{summary(claims)}."]
    for section, of_section in groupby(claims, key=lambda claim: claim.section):
        blocks += [f"## {section} {read_sections()[section]}", table(COLUMNS, map(_row, of_section))]
    blocks += ["## Config keys", table(("key", "default", "in the paper", "other values", "sec."), _switches(claims))]
    blocks += ["## Open", table(("claim", "open", "sec."), _open(claims))]
    return "\n\n".join(blocks) + "\n"


def summary(claims: Sequence[Claim]) -> str:
    tested, measured = (sum(map(bool, each)) for each in zip(*((c.test, _there(c)) for c in claims), strict=True))
    counts = [sum(claim.finding == finding for claim in claims) for finding in FINDINGS]
    verbs = "agree", "agree in part", "do not agree", "leave it open"
    found = ", ".join(f"{n} {verb}" for n, verb in zip(counts, verbs, strict=True))
    n_open = sum(bool(_missing(claim)) for claim in claims)
    text = f"{len(claims)} claims: {tested} with tests, {measured} with measurements"
    return f"{text}, {n_open} open; {sum(counts)} of the measurements test the claim itself: {found}"


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _row(claim: Claim) -> tuple[str, ...]:
    notes = [f"**Finding: {claim.finding}.**"] if claim.finding else []
    notes += [f"Config: {_describe(switch)}." for switch in claim.switches()]
    notes += [f"Differs: {claim.differs}"] if claim.differs else []
    notes += [f"**Open:** {each}" for each in _missing(claim)]
    code = [_link(_code(name or Path(file).name), file) for file, name, _ in claim.locations()]
    code += [_code(claim.line.strip())] if claim.line else []
    tests = [_link(_sentence(test), test.split("::")[0]) for test in claim.test]
    results = [_link(f"{Path(file).parent.name}/{Path(file).name}", file) for file in _there(claim)]
    return tuple(map("<br>".join, (map(_prose, (claim.text, *notes)), code, tests, results)))


def _switches(claims: Sequence[Claim]) -> Iterator[tuple[str, ...]]:
    for claim in claims:
        for key, paper, default, others in claim.switches():
            yield _code(key), as_in_toml(default), as_in_toml(paper), ", ".join(others), claim.section


def _open(claims: Sequence[Claim]) -> Iterator[tuple[str, ...]]:
    for claim in claims:
        if missing := _missing(claim):
            yield _prose(claim.text), "<br>".join(map(_prose, missing)), claim.section


def _describe(switch: Switch) -> str:
    key, paper, default, others = switch
    text = f"{key} = {as_in_toml(default)}, "
    text += "as in the paper" if default == paper else f"in the paper {as_in_toml(paper)}"
    return f"{text}; or {', '.join(others)}" if others else text


def _there(claim: Claim) -> list[str]:
    """The files that contain its results."""
    return [each.file for each in claim.results() if not each.is_missing]


def _missing(claim: Claim) -> list[str]:
    """What is open about the claim, in sentences."""
    lacking = [each for each in claim.results() if each.is_missing]
    missing = [
        f"{each.file} has no row {', '.join(each.missing_rows)} yet." if each.rows else f"There is no {each.file} yet."
        for each in lacking
    ]
    return [claim.open, *missing] if claim.open else missing


def _sentence(test: str) -> str:
    """The name of a test, which is a sentence."""
    return test.split("::")[1].removeprefix("test_").replace("_", " ")


def _link(text: str, file: str) -> str:
    return f"[{text}](../{file})"


def _code(text: str) -> str:
    return "`{}`".format(text.replace("|", r"\|"))


def _prose(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace(" * ", r" \* ")


if __name__ == "__main__":
    Parser(prog="python -m docs.build_paper", description=__doc__).parse_args()
    (ROOT / "docs/paper.md").write_text(paper_page(read_claims()), encoding="utf-8", newline="\n")
