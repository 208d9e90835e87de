"""A training run keeps the table of libraries that it began with, and says when that is not possible."""

from dataclasses import replace

import pytest
from tiny_run import assert_same_state, checkpoint_of, tiny_trainer

from minitransformer.checkpoints import load_checkpoint
from minitransformer.errors import BackendError
from minitransformer.kernels.numpy import product_table, table_in_force
from minitransformer.kernels.numpy.product_table import VARIABLE


def test_a_run_by_a_library_resumes_bit_for_bit_with_its_own_table(library, unset, tmp_path, capfd):
    table = table_in_force()
    unset.setattr(product_table, "installed", lambda: [table["small"]])
    unset.setattr(product_table, "measure", lambda libraries: table)
    tiny_trainer(tmp_path / "whole", updates=8).run()
    tiny_trainer(tmp_path / "resumed", updates=4).run()
    unset.setattr(product_table, "measure", lambda libraries: {})
    for path in (tmp_path / "minitransformer").iterdir():
        path.unlink()  # this machine would choose NumPy's BLAS now
    tiny_trainer(tmp_path / "resumed", updates=8).run()
    assert load_checkpoint(checkpoint_of(tmp_path / "resumed", 8)).progress["products"] == table
    assert_same_state(tmp_path / "whole", tmp_path / "resumed", 8)
    assert "rounding differs" not in capfd.readouterr().err


def test_a_run_that_resumes_with_another_table_says_so_in_one_line(onemkl, unset, tmp_path, capfd):
    unset.setenv(VARIABLE, "mkl")
    tiny_trainer(tmp_path / "run", updates=2).run()
    unset.setenv(VARIABLE, "numpy")
    capfd.readouterr()
    tiny_trainer(tmp_path / "run", updates=4).run()
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "products" in line]
    assert line == "train: products were formed by oneMKL, from here on by NumPy's BLAS: rounding differs"


def test_a_run_without_a_table_resumes_by_numpy(onemkl, unset, tmp_path, capfd):
    unset.setenv(VARIABLE, "numpy")
    tiny_trainer(tmp_path / "whole", updates=8).run()
    tiny_trainer(tmp_path / "run", updates=4).run()
    unset.delenv(VARIABLE)
    tiny_trainer(tmp_path / "run", updates=8).run()
    assert_same_state(tmp_path / "whole", tmp_path / "run", 8)
    assert "rounding differs" not in capfd.readouterr().err


def test_a_run_whose_library_is_gone_resumes_by_numpy_and_says_why_once(onemkl, unset, tmp_path, capfd):
    unset.setenv(VARIABLE, "mkl")
    tiny_trainer(tmp_path / "run", updates=2).run()
    capfd.readouterr()

    def broken(name):
        raise BackendError("oneMKL cannot be used (it is broken)")

    unset.setattr(product_table, "load", broken)
    tiny_trainer(tmp_path / "run", updates=4).run()
    lines = [line for line in capfd.readouterr().err.splitlines() if "product" in line]
    assert len(lines) == 2 and "it is broken" in lines[0] and lines[1].endswith("by NumPy's BLAS: rounding differs")


NO_TABLES = [7, None, [1], "x" * 10**5, {"small": "\x1b[2J" * 10**4}, {"\n" * 999: "mkl"}, {"small": "of tomorrow"}]
NO_TABLES += [{"small": "mkl", "few rows": "blis"}, {"packed, one row": "blis"}]


@pytest.mark.parametrize("table", NO_TABLES, ids=range(len(NO_TABLES)))
def test_a_checkpoint_with_a_table_that_is_none_resumes_by_numpy_in_one_line(table, unset, tmp_path, capfd):
    unset.setattr(product_table, "measure", lambda libraries: {})
    tiny_trainer(tmp_path / "run", updates=2).run()
    checkpoint = load_checkpoint(path := checkpoint_of(tmp_path / "run", 2))
    replace(checkpoint, progress=checkpoint.progress | {"products": table}).save(path)
    capfd.readouterr()
    tiny_trainer(tmp_path / "run", updates=4).run()
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "products" in line]
    assert line.isprintable() and len(line) < 200
