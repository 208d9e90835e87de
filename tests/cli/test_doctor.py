"""``doctor`` never fails: it reports what is installed, and how to install what is missing."""

import importlib.metadata
import importlib.util
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from minitransformer import cuda_diagnosis, errors
from minitransformer.cli import doctor
from minitransformer.cli.main import main
from minitransformer.errors import install_hint


def lines(capsys) -> dict[str, str]:
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    return dict(line.split(maxsplit=1) for line in output.split("\n") if line)


def test_every_item_has_one_line(capsys):
    assert list(lines(capsys)) == list(doctor.CHECKS)


def test_numpy_cores_and_memory_are_found_everywhere(capsys):
    import numpy

    found = lines(capsys)
    assert found["NumPy"] == numpy.__version__
    assert int(found["cores"]) >= 1
    assert "thread" in found["BLAS"]
    assert "GiB" in found["memory"] or "does not report" in found["memory"]


@pytest.mark.parametrize(
    ("package", "item", "extra"),
    [
        ("cupy", "CuPy", "cuda13"),
        ("mpi4py", "MPI", "mpi"),
        ("nvidia-nccl-cu13", "NCCL", "cuda13"),
        ("sacrebleu", "sacreBLEU", "eval"),
        ("matplotlib", "matplotlib", "plot"),
    ],
)
def test_what_is_missing_comes_with_the_extra_that_brings_it(package, item, extra, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    find, version = importlib.util.find_spec, importlib.metadata.version
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))

    def version_of_others(name):
        if name in (package, "nvidia-nccl-cu12"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", version_of_others)
    found = lines(capsys)[item]
    assert found.startswith("not found: ") and install_hint(extra) in found


def test_an_extra_is_that_of_the_checkout_or_of_the_installed_package(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "minitransformer" / "errors.py"))
    assert install_hint("eval") == 'run pip install "minitransformer[eval]"'
    (tmp_path / "setup.cfg").touch()
    assert install_hint("eval") == 'run pip install -e ".[eval]"'


@pytest.mark.parametrize(("count", "told"), [(1, "14.2, H200 (compute"), (8, "14.2, 8 GPUs, the first H200 (compute")])
def test_several_gpus_are_counted(count, told, monkeypatch, capsys):
    """A fault: of eight it told of the first alone, as if there were one."""
    facts = {"name": b"H200", "major": 9, "minor": 0}
    runtime = SimpleNamespace(
        getDeviceCount=lambda: count, getDeviceProperties=lambda number: facts, memGetInfo=lambda: (1 << 30, 1 << 31)
    )
    cupy = SimpleNamespace(__version__="14.2", cuda=SimpleNamespace(runtime=runtime), __spec__=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda_diagnosis, "cuda_trouble", lambda: None)
    assert lines(capsys)["CuPy"].startswith(f"{told} capability 9.0), 2.0 GiB, 1.0 GiB free")


@pytest.mark.parametrize(("cuda", "other"), [("13", "12"), ("12", "13")])
def test_an_nccl_for_another_cuda_than_cupys_is_named(cuda, other, monkeypatch, capsys):
    installed = {f"cupy-cuda{cuda}x": "14.2.0", f"nvidia-nccl-cu{other}": "2.32.3"}
    real = importlib.metadata.version

    def version(name):
        if not name.startswith(("cupy-", "nvidia-nccl-")):
            return real(name)
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    remedy = f"pip uninstall nvidia-nccl-cu{other}, then {install_hint(f'cuda{cuda}')}"
    assert lines(capsys)["NCCL"] == f"nvidia-nccl-cu{other} 2.32.3: CuPy is for CUDA {cuda}; {remedy}"
    installed[f"nvidia-nccl-cu{cuda}"] = "2.32.3"
    assert ": " not in lines(capsys)["NCCL"]


def test_a_check_that_fails_is_reported_and_the_others_run(monkeypatch, capsys):
    monkeypatch.setitem(doctor.CHECKS, "memory", Mock(side_effect=RuntimeError("two\nlines")))
    found = lines(capsys)
    assert found["memory"] == "not found: the check itself failed (RuntimeError: two lines)"
    assert "matplotlib" in found
