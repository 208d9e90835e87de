"""Which library forms products: what is installed, what is measured and kept, what the user asks for."""

import importlib.metadata
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.cli.main import main
from minitransformer.config import ModelConfig
from minitransformer.errors import BackendError
from minitransformer.kernels.numpy import mkl, product_table, use_table
from minitransformer.kernels.numpy.product_table import CLASSES, VARIABLE, checked, machine_table
from minitransformer.models import Transformer
from minitransformer.planning.memory import packed_bytes

ALL = dict.fromkeys(CLASSES, "mkl")


def test_without_the_extra_nothing_is_measured_and_nothing_is_said(unset, capsys):
    def not_installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    unset.setattr(importlib.metadata, "files", not_installed)
    unset.setattr(product_table, "measure", None)
    mkl.load.cache_clear()
    assert use_table(None) == {}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "content", [b"not a library", b"\x7fELF\x02\x01\x01" + bytes(57)], ids=["text", "of another architecture"]
)
def test_a_library_that_cannot_be_loaded_is_one_line_and_numpy_is_used(content, unset, tmp_path, capsys):
    path = tmp_path / "libmkl_rt.so.2"
    path.write_bytes(content)
    package = [SimpleNamespace(name=path.name, locate=lambda: path)]
    unset.setattr(importlib.metadata, "files", lambda name: package)
    mkl.load.cache_clear()
    assert use_table(None) == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert "oneMKL cannot be used" in line and line.endswith("NumPy's BLAS is used") and len(line) < 300


def test_a_library_without_a_needed_function_is_too_old(unset, capsys):
    library = SimpleNamespace(MKL_CBWR_Set=lambda mode: 0, MKL_Set_Dynamic=lambda on: None)
    unset.setattr(mkl.ctypes, "CDLL", lambda path: library)
    package = [SimpleNamespace(name="libmkl_rt.so.1", locate=lambda: "there")]
    unset.setattr(importlib.metadata, "files", lambda name: package)
    mkl.load.cache_clear()
    assert use_table(None) == {}
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("function", ["matmul", "packed_matmul"])
def test_a_library_with_wrong_products_is_one_line_and_numpy_is_used(function, library, unset, capsys):
    right = getattr(mkl.Library, function)

    def wrong(self, a, *arguments, **options):
        return right(self, a * 1.001, *arguments, **options)

    unset.setattr(mkl.Library, function, wrong)
    mkl.load.cache_clear()
    assert use_table(None) == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be those of NumPy" in line


def test_a_library_with_other_bits_each_time_is_not_used(library, unset):
    right, calls = mkl.Library.matmul, []

    def unsteady(self, a, b, out, add):
        right(self, a, b, out, add)
        calls.append(0)
        out *= 1 + (len(calls) % 2) * np.finfo(out.dtype).eps

    unset.setattr(mkl.Library, "matmul", unsteady)
    with pytest.raises(BackendError, match="same bits"):
        mkl.check(library)


def test_a_measured_table_is_said_kept_and_read_again(library, unset, tmp_path, capsys):
    wanted = {"few rows": "mkl"}
    unset.setattr(product_table, "measure", lambda library: wanted)
    assert machine_table()[0] == wanted
    (line,) = capsys.readouterr().err.splitlines()
    assert "measured" in line and "oneMKL (few rows), else NumPy's BLAS" in line
    unset.setattr(product_table, "measure", None)
    assert machine_table()[0] == wanted
    assert capsys.readouterr().err == ""


HOSTILE = [
    b"",
    b"null",
    b"[1]",
    b'{"few rows": "evil"}',
    b'{"../x": "mkl"}',
    b"[" * 10**5,
    b"{}" + b" " * 10**6,
    b"\xff",
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_a_cache_file_that_is_no_table_is_measured_anew(content, library, unset, tmp_path):
    unset.setattr(product_table, "measure", lambda library: {})
    machine_table()
    (path,) = (tmp_path / "minitransformer").iterdir()
    path.write_bytes(content)
    unset.setattr(product_table, "measure", lambda library: ALL)
    assert machine_table()[0] == ALL


def test_a_cache_folder_that_cannot_be_written_does_no_harm(library, unset, tmp_path):
    (tmp_path / "minitransformer").write_text("a file, not a folder")
    unset.setattr(product_table, "measure", lambda library: {"small": "mkl"})
    assert machine_table()[0] == {"small": "mkl"}


def test_nothing_is_measured_while_the_machine_is_busy(library, unset, tmp_path):
    unset.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    table, reason = machine_table()
    assert table == {} and "other work" in reason and not list(tmp_path.iterdir())


def test_a_measurement_finds_the_library_that_is_faster(library, unset):
    unset.setattr(product_table, "PAUSE", 0.0)
    unset.setattr(product_table, "SECONDS", 1e-3)

    def slow(function):
        def slower(*arguments, **options):
            product_table.time.sleep(0.05)
            return function(*arguments, **options)

        return slower

    with unset.context() as patched:
        for name in ("matmul", "packed_matmul"):
            patched.setattr(mkl.Library, name, slow(getattr(mkl.Library, name)))
        assert product_table.measure(library) == {}
    unset.setattr(np, "matmul", slow(np.matmul))
    assert product_table.measure(library) == ALL


@pytest.mark.parametrize(("value", "wanted"), [("numpy", {}), ("mkl", ALL)])
def test_the_environment_overrules_what_was_measured(value, wanted, library, unset):
    unset.setattr(product_table, "measure", None)
    unset.setenv(VARIABLE, value)
    assert machine_table()[0] == wanted
    assert use_table({"small": "mkl"}) == wanted


def test_a_wrong_value_in_the_environment_is_one_error(unset, capsys):
    unset.setenv(VARIABLE, "open\x1bblas" * 50)
    with pytest.raises(ValueError, match=f"{VARIABLE} must be numpy or mkl, got 'open"):
        use_table(None)
    assert main(["doctor"]) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("products")]) == 1


@pytest.mark.parametrize("table", [None, [], "mkl", {"x": "mkl"}, {"small": "x"}, {"small": ["mkl"]}, {"small": 1}])
def test_what_is_no_table_is_an_empty_one(table, library):
    assert checked(table) == {}


def test_plan_counts_the_memory_of_packed_matrices(library, capsys, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text("[model]\nvocab_size = 100\n")
    lines = {}
    for table in ({}, {"packed, few rows": "mkl"}):
        use_table(table)
        assert main(["plan", str(config)]) == 0
        lines[bool(table)] = [line for line in capsys.readouterr().out.splitlines() if "packed" in line]
    assert lines[False] == [] and len(lines[True]) == 1
    shapes = Transformer.parameter_shapes(ModelConfig(vocab_size=100)).values()
    assert packed_bytes(ModelConfig(vocab_size=100)) >= sum(4 * math.prod(each) for each in shapes if len(each) == 2)
