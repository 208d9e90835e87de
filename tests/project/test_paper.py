"""The paper audit: every claim has code, tests that exist and notice a broken line, and the committed page is true."""

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from docs.build_paper import paper_page
from docs.claims import FINDINGS, Claim, read_claims, read_sections
from minitransformer.config import Config

ROOT = Path(__file__).parents[2]
CLAIMS = read_claims()
every_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.section} {claim.text[:40]}")


def broken(claim: Claim) -> tuple[str, str]:
    """(file, its text with ``claim.becomes`` in place of ``claim.line``)"""
    for file, _, line in claim.locations():
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
        if line and claim.line in lines[line - 1]:
            lines[line - 1] = lines[line - 1].replace(claim.line, claim.becomes)
            return file, "".join(lines)
    raise LookupError(claim.line)


@every_claim
def test_the_code_of_a_claim_exists_and_has_its_line_once(claim):
    locations = claim.locations()
    assert locations or claim.open
    for file, name, line in locations:
        assert (ROOT / file).is_file()
        assert (name == "") or line > 0
    assert bool(claim.line) == bool(claim.becomes)
    if claim.line:
        file, text = broken(claim)
        assert text != (ROOT / file).read_text(encoding="utf-8")
        if file.endswith(".py"):
            compile(text, file, "exec")


@every_claim
def test_the_tests_of_a_claim_exist(claim):
    assert claim.test or claim.result or claim.open
    for test in claim.test:
        file, name = test.split("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_equation_table_figure_and_section_has_a_claim():
    texts = " ".join(claim.text for claim in CLAIMS)
    for number in range(1, 4):
        assert f"Eq. {number}: " in texts
    assert all(f"Table {number}" in texts for number in range(1, 5))
    assert all(each in texts for each in ("Figure 1", "Figure 2", "Figures 3 to 5"))
    assert {claim.section for claim in CLAIMS} == set(read_sections()) - {"5", "6"}


def test_each_claim_that_an_experiment_measured_says_whether_it_agrees():
    for claim in CLAIMS:
        assert claim.finding in ("", *FINDINGS)
        assert claim.finding in ("", "agrees") or claim.differs  # says what does not agree
        measured = [each for each in claim.results() if each.file.startswith("examples/") and not each.is_missing]
        assert not claim.finding or claim.results()
        if measured and not any(each.is_missing for each in claim.results()) and "table2.md" not in measured[0].file:
            assert claim.finding, claim.text


def test_code_keeps_its_signs():
    claim = replace(CLAIMS[0], line="a < b * c | d", becomes="b")
    assert r"<br>`a < b * c \| d` |" in paper_page([claim])


def test_a_switch_is_what_the_paper_does_unless_the_page_says_so():
    switches = [switch for claim in CLAIMS for switch in claim.switches()]
    assert {switch.key for switch in switches if switch.default != switch.paper} == {"training.save_minutes"}
    assert ("model.norm", "post", "post", ("pre",)) in switches
    for key, paper, _, _ in switches:
        section, name = key.split(".")
        Config.from_dict({section: {name: paper}})


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of what the tests of claims need, without compiled files, which would hide a change."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("minitransformer", "tests", "examples", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


BROKEN = [[claim for claim in CLAIMS if claim.text.startswith("Eq. ")]]
if "MINITRANSFORMER_ALL_CLAIMS" in os.environ:
    BROKEN += [[claim] for claim in CLAIMS if claim.line]


@pytest.mark.parametrize("claims", BROKEN, ids=lambda claims: f"{claims[0].section} {claims[0].text[:40]}")
def test_the_tests_of_claims_notice_that_their_lines_are_broken(claims, checkout):
    """Those of the three equations, in different files, at once; where it is asked for, of each claim alone."""
    changed, tests = dict(map(broken, claims)), {test for claim in claims for test in claim.test}
    for file, text in changed.items():
        (checkout / file).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *sorted(tests)]
    settings = os.environ | {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    try:
        done = subprocess.run(command, cwd=checkout, env=settings, capture_output=True, text=True, timeout=300)
    finally:
        for file in changed:
            shutil.copy(ROOT / file, checkout / file)
    assert done.returncode == 1, done.stdout  # 0: all pass; others: they could not be run
    failed = {re.sub(r"\[.*", "", name) for name in re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)}
    assert failed == tests if len(claims) > 1 else failed


def test_the_committed_page_is_up_to_date():
    page = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
    assert page == paper_page(CLAIMS), "run `python -m docs.build_paper`"


def test_a_result_that_is_not_there_is_open_a_row_of_a_table_too():
    there, nowhere = "examples/paper/results/table3.md#base", "examples/paper/results/none.md"
    # standard is a word of the page and no row of its table
    claim = replace(CLAIMS[0], result=[there, there.replace("base", "Z8,base,standard"), nowhere], open="")
    page = paper_page([claim])
    assert "Open:** examples/paper/results/table3.md has no row Z8, standard yet." in page
    assert f"Open:** There is no {nowhere} yet." in page and page.count("[results/table3.md]") == 1
