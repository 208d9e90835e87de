"""The paper audit: every claim has code, tests that exist and notice a broken line, and the committed page is true."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs.build_paper import paper_page, summary
from docs.claims import FINDINGS, read_claims, read_sections
from minitransformer.config import Config
from tests.reliability.paper_claims import broken, copy_checkout, trial

ROOT = Path(__file__).parents[2]
CLAIMS = read_claims()
every_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.section} {claim.text[:40]}")


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


def test_the_summary_counts_each_finding():
    claims = [replace(CLAIMS[0], finding=finding, result=["README.md"]) for finding in [*FINDINGS, "open"]]
    assert "5 of the measurements test the claim itself: 1 agree, 1 agree in part, 1 do not agree, 2 do not decide" in (
        summary(claims)
    )


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


def test_the_tests_of_the_three_equations_notice_a_broken_line(tmp_path):
    """`python -m tests.reliability.paper_claims` breaks all of them."""
    copy_checkout(tmp_path)
    equations = [claim for claim in CLAIMS if claim.text.startswith("Eq. ")]
    assert trial(tmp_path, *equations) == sorted(test for claim in equations for test in claim.test)


def test_the_committed_page_is_up_to_date():
    page = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
    assert page == paper_page(CLAIMS), "run `python -m docs.build_paper`"


def test_a_result_that_is_not_there_is_open_a_row_of_a_table_too():
    there, nowhere = "examples/paper/results/table3.md#base", "examples/paper/results/none.md"
    claim = replace(CLAIMS[0], result=[there, there.replace("base", "Z8,base,Z9"), nowhere], open="")
    page = paper_page([claim])
    assert "Open:** examples/paper/results/table3.md has no row Z8, Z9 yet." in page
    assert f"Open:** There is no {nowhere} yet." in page and page.count("[results/table3.md]") == 1


def test_links_of_the_page_lead_to_files_of_the_checkout():
    links = re.findall(r"\]\(([^)]+)\)", paper_page(CLAIMS))
    assert len(links) > 2 * len(CLAIMS)
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
