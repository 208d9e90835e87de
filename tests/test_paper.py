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

from minitransformer.cli.main import main
from minitransformer.config import Config
from minitransformer.paper import html_page, markdown_page, read_claims, read_sections, terminal_text
from minitransformer.paper.claims import FINDINGS
from minitransformer.paper.page import summary
from tests.reliability.paper_claims import broken, copy_checkout, trial

ROOT = Path(__file__).parents[1]
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


def test_code_keeps_its_signs_in_both_pages():
    claim = replace(CLAIMS[0], line="a < b * c | d", becomes="b")
    assert r"<br>`a < b * c \| d` |" in markdown_page([claim], ROOT)
    assert "<br><code>a &lt; b * c | d</code></td>" in html_page([claim], ROOT)


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
    assert page == markdown_page(CLAIMS, ROOT / "docs"), "run `minitransformer paper -o docs/paper.md`"


@pytest.mark.parametrize("width", [60, 80, 130])
def test_the_list_fits_the_terminal_except_for_long_names(width):
    for line in terminal_text(CLAIMS, width).split("\n"):
        first = 10 if line.startswith("  ") else 0
        assert len(line) <= width or " " not in line[first:].strip()


def test_the_list_shows_the_line_that_implements_a_claim(capsys):
    assert main(["paper", "--section", "3.2.1"]) == 0
    (number,) = re.findall(r"ops/attention.py:(\d+) attention_forward", capsys.readouterr().out)
    lines = (ROOT / "minitransformer/ops/attention.py").read_text(encoding="utf-8").splitlines()
    assert "weights @ v" in lines[int(number) - 1]


def test_a_section_includes_those_within_it_and_no_others(capsys):
    assert [claim.section for claim in read_claims("3.2")] == [
        claim.section for claim in CLAIMS if claim.section[:3] == "3.2"
    ]
    assert main(["paper", "--section", "7"]) == 2
    assert capsys.readouterr().err == (
        f"minitransformer paper: --section must be one of {', '.join(read_sections())}, got '7'\n"
    )


def test_a_page_is_written_in_the_format_of_its_name(tmp_path, capsys):
    for name, text in (("a.md", "## 3.3 Position-wise"), ("a.HTML", "<h2>3.3 Position-wise")):
        assert main(["paper", "--section", "3.3", "-o", str(tmp_path / name)]) == 0
        assert text in (tmp_path / name).read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["paper", "-o", str(tmp_path / "a.txt")]) == 2
    assert capsys.readouterr().err == "minitransformer paper: --output must end in .md or .html, got 'a.txt'\n"


def test_a_result_that_is_not_there_is_open_a_row_of_a_table_too():
    there, nowhere = "examples/paper/results/table3.md#base", "examples/paper/results/none.md"
    claim = replace(CLAIMS[0], result=[there, there.replace("base", "Z8,base,Z9"), nowhere], open="")
    page = markdown_page([claim], ROOT)
    assert "Open:** examples/paper/results/table3.md has no row Z8, Z9 yet." in page
    assert f"Open:** There is no {nowhere} yet." in page and page.count("[results/table3.md]") == 1
    assert terminal_text([claim], 150).count(" yet.") == 2


@pytest.mark.parametrize("folder", ["docs", "."])
def test_links_of_the_pages_lead_to_files_of_the_checkout(folder):
    in_markdown = re.findall(r"\]\(([^)]+)\)", markdown_page(CLAIMS, ROOT / folder))
    in_html = re.findall(r'href="([^"]+)"', html_page(CLAIMS, ROOT / folder))
    assert in_markdown == in_html and len(in_html) > 2 * len(CLAIMS)
    assert [link for link in in_html if not (ROOT / folder / link).is_file()] == []


def test_an_installed_package_names_the_tests_that_it_does_not_have(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "minitransformer", tmp_path / "minitransformer", ignore=ignored)
    command = [sys.executable, "-m", "minitransformer", "paper"]
    settings = os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "150"}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tests/test_ops.py::test_attention_equals_the_formula_written_with_loops" in done.stdout
    assert "examples/paper/results/table1.md\n" in done.stdout and "not there yet" not in done.stdout
