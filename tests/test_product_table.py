"""Which library forms products: what is installed, what is measured and kept, what the user asks for."""

import os
from dataclasses import replace

import numpy as np
import pytest

from minitransformer.blas import limited_blas_threads
from minitransformer.cli.main import main
from minitransformer.config import ModelConfig
from minitransformer.generation import beam_search
from minitransformer.kernels.numpy import gemm, libraries, product_table, table_in_force, use_table
from minitransformer.kernels.numpy.cblas import Library
from minitransformer.kernels.numpy.libraries import LIBRARIES
from minitransformer.kernels.numpy.product_table import CLASSES, VARIABLE, checked, classes_of, machine_table
from minitransformer.models import Transformer
from minitransformer.planning.memory import packed_bytes

ALL = dict.fromkeys(CLASSES, "mkl")
MIXED = {"small": "mkl", "few rows": "openblas"}


@pytest.fixture
def alone(onemkl, unset):
    """oneMKL is the only library that is installed."""
    unset.setattr(product_table, "installed", lambda: ["mkl"])


def test_one_library_that_cannot_be_loaded_does_not_keep_another_from_use(alone, unset, capsys):
    unset.setattr(product_table, "installed", lambda: ["mkl", "broken"])
    unset.setitem(libraries.LIBRARIES, "broken", replace(LIBRARIES["blis"], title="A broken one", files=("/no/file",)))
    unset.setattr(product_table, "measure", lambda libraries: dict.fromkeys(CLASSES, *libraries))
    table, reason = machine_table()
    assert table == ALL and "A broken one cannot be used" in reason
    first, second = capsys.readouterr().err.splitlines()
    assert "A broken one cannot be used" in first and "NumPy" not in first and "measured" in second


def test_a_measured_table_is_said_kept_and_read_again(alone, unset, tmp_path, capsys):
    wanted = {"few rows": "mkl"}
    unset.setattr(product_table, "measure", lambda libraries: wanted)
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
    b'{"few rows": ["mkl"]}',
    b'{"few rows": "blis"}',  # is not measured
    b'{"few rows": "mkl", "small": "openblas"}',
    b'{"../x": "mkl"}',
    b"[" * 10**5,
    b"{}" + b" " * 10**6,
    b"\xff",
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_a_cache_file_that_is_no_table_is_measured_anew(content, alone, unset, tmp_path):
    unset.setattr(product_table, "measure", lambda libraries: {})
    machine_table()
    (path,) = (tmp_path / "minitransformer").iterdir()
    path.write_bytes(content)
    unset.setattr(product_table, "measure", lambda libraries: ALL)
    assert machine_table()[0] == ALL


def test_a_cache_folder_that_cannot_be_written_does_no_harm(alone, unset, tmp_path):
    (tmp_path / "minitransformer").write_text("a file, not a folder")
    unset.setattr(product_table, "measure", lambda libraries: {"small": "mkl"})
    assert machine_table()[0] == {"small": "mkl"}


def test_nothing_is_measured_while_the_machine_is_busy(alone, unset, tmp_path):
    unset.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    table, reason = machine_table()
    assert table == {} and "other work" in reason and not list(tmp_path.iterdir())


def test_a_measurement_finds_the_library_that_is_faster(library, unset):
    table = table_in_force()
    for name in CLASSES:  # products that take no time beside what slows them down here
        unset.setitem(CLASSES, name, ((2, 2, 8), (2, 8, 8)) if name == "batched" else ((2, 8), (8, 8)))
    unset.setattr(product_table, "PAUSE", 0.0)
    unset.setattr(product_table, "SECONDS", 1e-3)

    def slow(function):
        def slower(*arguments, **options):
            product_table.time.sleep(0.02)
            return function(*arguments, **options)

        return slower

    with limited_blas_threads(1):
        with unset.context() as patched:
            for name in ("matmul", "packed_matmul"):
                patched.setattr(Library, name, slow(getattr(Library, name)))
            assert product_table.measure({table["small"]: library}) == {}
        unset.setattr(np, "matmul", slow(np.matmul))
        assert product_table.measure({table["small"]: library}) == table


def test_of_two_libraries_the_one_that_saves_more_is_chosen(unset):
    shares = {"mkl": {"small": 0.9, "one row": 0.9}, "openblas": {"batched": 0.5}}
    unset.setattr(product_table, "shares_of_time", lambda name, library: shares[name])
    assert product_table.measure(dict.fromkeys(shares)) == {"batched": "openblas"}
    shares["openblas"] = {}
    assert product_table.measure(dict.fromkeys(shares)) == dict.fromkeys(["small", "one row"], "mkl")
    shares["mkl"] = {}
    assert product_table.measure(dict.fromkeys(shares)) == {}


@pytest.mark.parametrize("value", ["numpy", *LIBRARIES])
def test_the_environment_overrules_what_was_measured(value, unset):
    unset.setattr(product_table, "measure", None)
    unset.setattr(product_table, "load", lambda name: None)
    unset.setenv(VARIABLE, value)
    wanted = {} if value == "numpy" else dict.fromkeys(classes_of(value), value)
    assert machine_table()[0] == wanted
    assert use_table({"small": "mkl"}) == wanted


def test_a_wrong_value_in_the_environment_is_one_error(unset, capsys):
    unset.setenv(VARIABLE, "open\x1bblas" * 50)
    with pytest.raises(ValueError, match=f"{VARIABLE} must be one of numpy, {', '.join(LIBRARIES)}, got 'open"):
        use_table(None)
    assert main(["doctor"]) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("products")]) == 1


@pytest.mark.parametrize(
    "table", [None, [], "mkl", {"x": "mkl"}, {"small": "x"}, {"small": ["mkl"]}, {"small": 1}, MIXED]
)
def test_what_is_no_table_is_an_empty_one(table, onemkl):
    assert checked(table) == {}


PACKED = [name for name in CLASSES if name.startswith("packed")]


@pytest.mark.parametrize("classes", [[], PACKED[1:2], PACKED], ids=["none", "few rows", "all"])
def test_plan_counts_the_memory_of_packed_matrices(classes, onemkl, capsys, tmp_path):
    use_table(dict.fromkeys(classes, "mkl"))
    config = tmp_path / "config.toml"
    config.write_text("[model]\nvocab_size = 100\nn_layers = 1\n")
    assert main(["plan", str(config)]) == 0
    shape = ModelConfig(vocab_size=100, n_layers=1)
    counted, before = packed_bytes(shape), gemm.packed_bytes()
    assert f"{counted / 2**20:,.1f} MiB more, for packed copies" in capsys.readouterr().out
    model = Transformer(shape, seed=1)
    model.parameters.freeze()
    for sentences in (1, 20):
        beam_search(model, np.full((sentences, 4), 5), beam_size=2, max_extra=2)
    assert 0 < gemm.packed_bytes() - before <= counted
