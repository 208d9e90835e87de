"""Tests that are skipped on other systems: the table names tests that there are, and those only."""

import ast
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import systems
from systems import NEEDS, lacking

PATTERNS = [pattern for _, *patterns in NEEDS.values() for pattern in patterns]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_test_that_needs_another_system_exists_under_its_name(pattern):
    file, _, name = pattern.partition("::")
    tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
    assert any(isinstance(node, ast.FunctionDef) and fnmatch(node.name, name) for node in tree.body)


def test_what_is_missing_is_named_and_nothing_else_is_skipped(monkeypatch):
    monkeypatch.setattr(systems, "NEEDS", {"wings": (False, "test_birds.py::test_one_flies*"), "legs": (True, "*")})
    assert lacking("test_birds.py::test_one_flies[robin]") == "wings"
    assert lacking("test_birds.py::test_one_walks") is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has them all")
def test_linux_has_all_that_any_test_needs():
    assert [need for need, (is_here, *_) in NEEDS.items() if not is_here] == []
