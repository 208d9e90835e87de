"""The table of kernels/README.md: every kernel has a row with the gain that was measured, or says that none was."""

import re
from pathlib import Path

import pytest

from minitransformer import kernels
from minitransformer.kernels import FUNCTIONS, KERNELS

FOLDER = Path(kernels.__file__).parent
README = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in README.split("\n") if re.match(r"\| \w+/", line)
]
NAMES = {(name, Path(file).parent.name) for file, names, *_ in ROWS for name in names.split(", ")}
MASKS = {("dropout_mask", "numpy"), ("dropout_mask", "cupy")}


def test_every_kernel_has_a_row_and_every_row_a_kernel():
    assert {*KERNELS, *FUNCTIONS, *MASKS} == NAMES


@pytest.mark.parametrize(("file", "names", "gain", "machine"), ROWS, ids=lambda cell: cell[:30])
def test_a_row_names_a_file_with_its_gain_and_machine(file, names, gain, machine):
    assert (FOLDER / file).is_file() and gain
    assert (machine == "") == (gain == "not measured")
    assert machine or file.startswith("cupy/")  # what replaces rules of NumPy has been measured


def test_every_cuda_source_has_a_row():
    assert {f"cupy/{path.name}" for path in FOLDER.glob("cupy/*.cu")} <= {file for file, *_ in ROWS}


def test_gains_of_a_training_step_are_those_of_the_notes():
    """One table has a row for each size, with a column for each of three kernels and one for all; another has the
    milliseconds of large products in one thread and in two."""
    notes = (FOLDER.parents[1] / "benchmarks" / "notes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| V .* tokens \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", notes, re.M)
    assert len(rows) == 3
    for column in zip(*rows, strict=True):
        assert f" {min(column)} to {max(column)}" in README
    products = re.findall(r"^  \| (?:V 8|base).* \| ([\d,]+) \| ([\d,]+) \| [\d,]+ .*\|$", notes, re.M)
    gains = [int(one.replace(",", "")) / int(two.replace(",", "")) for one, two in products]
    assert f" {min(gains):.2f} to {max(gains):.2f} (" in README
