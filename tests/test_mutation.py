"""Mutation testing in its quick form: some mutants are caught once more, and the list of equivalent ones is true."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.mutation.mutants import Mutant
from tests.reliability.mutation.results import RESULTS, read_equivalent, wilson_interval

if sys.platform != "linux":
    pytest.skip("mutation testing needs Linux", allow_module_level=True)

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not RESULTS.exists(), reason="there are no results of mutation testing")
def test_ten_mutants_are_caught_by_the_tests_that_caught_them_before():
    command = [sys.executable, "-m", "tests.reliability.mutation", "check", "--count", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("mutant", read_equivalent(), ids=lambda mutant: f"{mutant.file}: {mutant.new[:60]}")
def test_an_equivalent_mutant_is_one_of_a_line_that_exists(mutant):
    compile(mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8")), mutant.file, "exec")


SOURCE = """class A:
    @property
    def one(self):
        return 1 + 1

    def two(self):
        if self:
            return 1 + 1
        return 1 + 1
"""


def test_a_mutant_is_found_by_its_text_and_function_wherever_it_stands():
    mutant = Mutant("a.py", "A.two", "return 1 + 1", "return 1 - 1", nth=1)
    assert mutant.apply(SOURCE) == SOURCE[: SOURCE.rindex("+")] + "- 1\n"
    assert list(mutant.lines("\n\n" + SOURCE)) == [10]
    assert Mutant("a.py", "A.one", "@property", "").apply(SOURCE) == SOURCE.replace("    @property\n", "")
    with pytest.raises(LookupError, match="a.py: A.one must have the line 'return 1'; update its entry"):
        Mutant("a.py", "A.one", "return 1", "return 2").apply(SOURCE)


def test_the_interval_of_a_share_is_that_of_wilson():
    """The example of Newcombe (1998, table I): 81 of 263."""
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
