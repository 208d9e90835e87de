"""Libraries that can form products: where they are found, and what is said of one that cannot be used."""

import configparser
import importlib.metadata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.cli.main import main
from minitransformer.errors import BackendError
from minitransformer.kernels.numpy import cblas, gemm, libraries, product_table, use_table
from minitransformer.kernels.numpy.cblas import Library
from minitransformer.kernels.numpy.libraries import LIBRARIES
from minitransformer.kernels.numpy.product_table import VARIABLE, checked


@pytest.fixture
def packages(unset):
    """A dict of the packages with libraries, by name the files of each; at first none is installed."""
    found: dict[str, list[SimpleNamespace]] = {}

    def files(name: str) -> list[SimpleNamespace]:
        if name not in found:
            raise importlib.metadata.PackageNotFoundError(name)
        return found[name]

    unset.setattr(importlib.metadata, "files", files)
    libraries.load.cache_clear()
    return found


def file_named(name: str, path: object = "there") -> SimpleNamespace:
    return SimpleNamespace(name=name, locate=lambda: path)


def test_without_an_extra_nothing_is_measured_and_nothing_is_said(packages, unset, capsys):
    unset.setattr(product_table, "measure", None)
    assert use_table(None) == {}
    assert capsys.readouterr().err == ""
    assert main(["doctor"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("products")]
    assert "no other library is installed; run pip install" in line


def test_a_new_library_needs_one_entry_and_no_more(unset, rng, capsys):
    files = list(Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas64_*"))
    if not files:
        pytest.skip("NumPy has no OpenBLAS of its own")
    entry = replace(LIBRARIES["openblas"], title="A new one", package=None, files=(str(files[0]),), batches=False)
    unset.setitem(LIBRARIES, "new", entry)
    unset.setenv(VARIABLE, "new")
    table = use_table(None)
    assert set(table.values()) == {"new"} and not {"batched", "packed, one row"} & set(table)
    new, products = libraries.load("new"), []
    unset.setattr(new, "matmul", lambda *factors, matmul=new.matmul: products.append(0) or matmul(*factors))
    a, b = rng.standard_normal((2, 9, 33)), rng.standard_normal((2, 33, 70))
    np.testing.assert_allclose(gemm.matmul(a[0], b[0]), a[0] @ b[0], rtol=1e-10)
    np.testing.assert_array_equal(gemm.matmul(a, b), a @ b)
    assert len(products) == 1
    assert main(["doctor"]) == 0
    assert "products    A new one: MINITRANSFORMER_BLAS=new" in capsys.readouterr().out


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_that_is_asked_for_and_missing_is_one_line(name, packages, unset, capsys):
    unset.setattr(cblas.ctypes, "CDLL", lambda path: (_ for _ in ()).throw(OSError(f"{path}: no such file")))
    unset.setenv(VARIABLE, name)
    assert use_table(None) == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert LIBRARIES[name].title in line and line.endswith("NumPy's BLAS is used") and len(line) < 300


@pytest.mark.parametrize("name", [name for name, entry in LIBRARIES.items() if entry.package])
def test_the_package_of_a_library_is_that_of_the_extra_with_its_name(name):
    extras = configparser.ConfigParser()
    extras.read(Path(__file__).parents[1] / "setup.cfg")
    assert extras["options.extras_require"][name].strip().startswith(f"{LIBRARIES[name].package}>=")


@pytest.mark.parametrize(
    "content", [b"not a library", b"\x7fELF\x02\x01\x01" + bytes(57)], ids=["text", "of another architecture"]
)
def test_a_library_that_cannot_be_loaded_is_one_line_and_numpy_is_used(content, packages, tmp_path, capsys):
    path = tmp_path / "libmkl_rt.so.2"
    path.write_bytes(content)
    packages["mkl"] = [file_named("README"), file_named(path.name, path)]
    assert use_table(None) == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert "oneMKL cannot be used" in line and line.endswith("NumPy's BLAS is used") and len(line) < 300


@pytest.mark.parametrize("name", ["mkl", "openblas"])
def test_a_library_without_a_needed_function_is_too_old(name, packages, unset, capsys):
    old = SimpleNamespace(MKL_CBWR_Set=lambda mode: 0, MKL_Set_Dynamic=lambda on: None)
    unset.setattr(cblas.ctypes, "CDLL", lambda path: old)
    packages[LIBRARIES[name].package] = [file_named("libmkl_rt.so.1"), file_named("libscipy_openblas64_.so")]
    assert use_table(None) == {}
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_blis_with_wide_integers_is_not_called(unset, capsys):
    libraries.load.cache_clear()
    unset.setattr(cblas.ctypes, "CDLL", lambda path: SimpleNamespace(bli_info_get_blas_int_type_size=lambda: 64))
    assert checked({"small": "blis"}) == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert "must have integers of 32 bits, got 64" in line


@pytest.mark.parametrize("function", ["matmul", "packed_matmul"])
def test_a_library_with_wrong_products_is_one_line_and_numpy_is_used(function, onemkl, unset, capsys):
    unset.setattr(product_table, "installed", lambda: ["mkl"])
    right = getattr(Library, function)

    def wrong(self, a, *arguments, **options):
        return right(self, a * 1.001, *arguments, **options)

    unset.setattr(Library, function, wrong)
    libraries.load.cache_clear()
    assert use_table(None) == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be those of NumPy" in line


def test_a_library_with_other_bits_each_time_is_not_used(library, unset):
    right, calls = Library.matmul, []

    def unsteady(self, a, b, out, add):
        right(self, a, b, out, add)
        calls.append(0)
        out *= 1 + (len(calls) % 2) * np.finfo(out.dtype).eps

    unset.setattr(Library, "matmul", unsteady)
    with pytest.raises(BackendError, match="same bits"):
        cblas.check(library)
