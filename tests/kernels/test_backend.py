"""Which array library computes, and the error when the GPU cannot be used."""

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from extras import need
from systems import in_new_process
from tiny_run import tiny_text, write_config

from minitransformer import cuda_diagnosis
from minitransformer.backend import load_array_module
from minitransformer.cli import doctor
from minitransformer.cli.common import explain
from minitransformer.cli.main import main
from minitransformer.config import ModelConfig
from minitransformer.cuda_diagnosis import cuda_trouble
from minitransformer.errors import BackendError, ConfigError, install_hint
from minitransformer.models import Transformer


class Card:
    """A stand-in for CuPy on a machine with a GPU; keywords say what is wrong with it."""

    def __init__(self, driver=13000, wheel=13020, seen=True, capability="90", product=None, free=10 << 20):
        def matmul(a, b):
            if product is not None:
                raise product

        runtime = SimpleNamespace(
            driverGetVersion=lambda: driver,
            runtimeGetVersion=lambda: wheel,
            deviceSynchronize=lambda: None,
            memGetInfo=lambda: (free, 80 << 30),
        )
        device = SimpleNamespace(compute_capability=capability)
        self.cuda = SimpleNamespace(runtime=runtime, is_available=lambda: seen, Device=lambda: device)
        self.ones, self.matmul, self.ndarray = (lambda shape, dtype: None), matmul, type("ndarray", (), {})
        self.__name__ = "cupy"


@pytest.fixture
def card(monkeypatch):
    """Puts a Card in CuPy's place; libraries: those that CUDA's finder does not find."""

    def put(missing: tuple[str, ...] = (), **what) -> Card:
        def find(library):
            if library in missing:
                raise RuntimeError(f'Failure finding "lib{library}.so.13"\nin many\nplaces')

        monkeypatch.setitem(sys.modules, "cupy", Card(**what))
        finder = SimpleNamespace(load_nvidia_dynamic_lib=find)
        monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(pathfinder=finder))
        monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
        monkeypatch.setattr(cuda_diagnosis, "driver_version", lambda: what.get("driver", 13000))
        return sys.modules["cupy"]

    return put


CASES = {
    "no driver": ({"driver": 0}, "there is no NVIDIA driver", "install the driver"),
    "an old driver": (
        {"driver": 12020},
        "driver is for CUDA 12, this CuPy for CUDA 13",
        'driver, or pip uninstall cupy-cuda13x, then run pip install -e ".[cuda12]"',  # two CuPys share their files
    ),
    "a very old driver": ({"driver": 11080}, "driver is for CUDA 11, this CuPy for CUDA 13", "install a newer driver"),
    "no card": ({"seen": False}, "sees no GPU", "CUDA_VISIBLE_DEVICES"),
    "an old card": ({"capability": "70"}, "compute capability 7.0, CuPy for CUDA 13 needs 7.5", "[cuda12]"),
    "a very old card": ({"capability": "35", "wheel": 12090}, "3.5, CuPy for CUDA 12 needs 5.0", "use a newer card"),
    "no cuBLAS": ({"missing": ("cublas",)}, "CUDA's library cublas is not", "[cuda13]"),
    "no NVRTC for 12": ({"missing": ("nvrtc",), "wheel": 12090, "driver": 12090}, "library nvrtc is not", "[cuda12]"),
    "no other library": ({"product": ImportError("libnvJitLink.so")}, "cannot be loaded (libnvJitLink.so)", "cuda13"),
    "full memory": ({"product": MemoryError("4 bytes")}, "memory is full (4 bytes)", "nvidia-smi"),
    "full memory for cuBLAS": (
        {"product": RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")},
        "memory is full (CUBLAS_STATUS_ALLOC_FAILED)",
        "nvidia-smi",
    ),
    "a card that fails": ({"product": ValueError("ECC\nerror")}, "refused a first computation (ValueError: ECC", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_each_reason_why_a_gpu_cannot_compute_has_a_message_and_a_remedy(name, card):
    what, message, remedy = CASES[name]
    card(**what)
    trouble = cuda_trouble()
    assert message in trouble and remedy in trouble and "\n" not in trouble
    assert load_array_module("auto") is np
    with pytest.raises(BackendError, match="^device cuda: .*; or use --device cpu$"):
        load_array_module("cuda")


def test_cuda_12_is_advised_only_where_it_helps(card):
    for what in ({"driver": 11080}, {"driver": 11080, "wheel": 12090}, {"capability": "35", "wheel": 12090}):
        card(**{"driver": 13000} | what)
        assert "cuda12" not in cuda_trouble()


def test_a_training_on_the_cpu_of_a_machine_with_a_gpu_says_why(card, tmp_path, capsys):
    model, training = {"n_layers": 1, "d_model": 8, "d_ff": 8, "n_heads": 1}, {"directory": str(tmp_path / "run")}
    config = write_config(
        tmp_path / "run.toml", model=model, data=tiny_text(tmp_path), training=training | {"updates": 1}
    )
    card(driver=12020)
    said = "on the CPU, not on the GPU: the NVIDIA driver is for CUDA 12, this CuPy for CUDA 13"
    for device, is_said in (("auto", True), ("cpu", False)):
        assert main(["train", str(config), "--device", device]) == 0
        assert (said in capsys.readouterr().err) == is_said
    assert main(["train", str(config), "--set", "execution.precision=bfloat16"]) == 2
    assert said in capsys.readouterr().err  # a fault: it said only that the CPU has no bfloat16
    card(driver=0)
    assert main(["train", str(config)]) == 0 and "GPU" not in capsys.readouterr().err


def test_the_page_shows_the_lines_as_they_are_printed(card, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8").split("## What can be wrong")[1]
    shown = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    printed = []
    for what, *_ in CASES.values():
        card(**what)
        printed.append(cuda_trouble())
    full = MemoryError()
    full._size = 3 << 30
    printed.append(explain(full)[0])
    monkeypatch.setitem(sys.modules, "cupy", None)
    printed.append(cuda_trouble())
    assert len(shown) == 8
    for line in shown:
        pattern = re.escape(line).replace(r"\.\.\.", ".*")
        assert any(re.fullmatch(pattern, each) for each in printed), line


def test_a_gpu_that_can_compute_is_used(card):
    cupy = card()
    assert cuda_trouble() is None
    assert load_array_module("cuda") is cupy and load_array_module("auto") is cupy
    assert load_array_module("cpu") is np


def test_missing_cupy_and_broken_cupy_have_different_messages(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert f"CuPy is not installed; {install_hint('cuda13')}" in cuda_trouble()
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    real_import = __import__

    def broken(name, *rest):
        if name == "cupy":
            raise ImportError("undefined symbol")
        return real_import(name, *rest)

    monkeypatch.setattr("builtins.__import__", broken)
    assert "cannot be loaded (undefined symbol)" in cuda_trouble()


def test_cupy_without_a_driver_says_that_there_is_no_driver():
    cupy = need("cupy")
    if cupy.cuda.runtime.driverGetVersion():
        pytest.skip("this machine has an NVIDIA driver")
    assert cuda_diagnosis.driver_version() == 0
    assert cuda_trouble() == ("CuPy is installed but there is no NVIDIA driver; install the driver of your card")
    assert load_array_module("auto") is np
    assert "no NVIDIA driver" in doctor.CHECKS["CuPy"]()[1]


def test_real_errors_of_full_memory_are_told_from_others():
    cupy = need("cupy")
    runtime_error = cupy.cuda.runtime.CUDARuntimeError
    assert cuda_diagnosis.is_out_of_memory(cupy.cuda.memory.OutOfMemoryError(3 << 30, 0, 0))
    assert cuda_diagnosis.is_out_of_memory(runtime_error(2))
    assert not any(map(cuda_diagnosis.is_out_of_memory, (runtime_error(700), runtime_error(35))))
    assert cuda_diagnosis.memory_trouble(cupy.cuda.memory.OutOfMemoryError(3 << 30, 0, 0)).startswith("3,072 MiB")


def test_a_library_that_is_really_missing_is_named_with_what_brings_it():
    pathfinder = need("cuda.pathfinder")
    try:
        pathfinder.load_nvidia_dynamic_lib("cublas")
    except pathfinder.DynamicLibNotFoundError:
        trouble = cuda_diagnosis.library_trouble(13)
        assert trouble.startswith("the driver is there but CUDA's library cublas is not (Failure finding ")
        assert trouble.endswith(f"; {install_hint('cuda13')}") and "\n" not in trouble
    else:
        pytest.skip("cuBLAS is installed")


def test_auto_without_a_driver_imports_no_cupy():
    in_new_process(
        "import sys; from minitransformer import backend, cuda_diagnosis; import numpy\n"
        "cuda_diagnosis.driver_version = lambda: 0\n"
        "assert backend.load_array_module('auto') is numpy; assert 'cupy' not in sys.modules\n"
        "from minitransformer.training import Trainer; import minitransformer.kernels.cupy\n"
        "assert 'cupy' not in sys.modules"
    )


def test_out_of_memory_names_the_request_the_free_memory_and_what_to_lower(card, monkeypatch, refused):
    class OutOfMemoryError(MemoryError):
        _size = 3 << 30

    card(free=100 << 20)
    monkeypatch.setitem(doctor.CHECKS, "memory", lambda: ("", ""))

    def full(arguments):
        raise OutOfMemoryError("Out of memory allocating 3,221,225,472 bytes")

    monkeypatch.setattr(doctor, "run", full)
    keys = ("data.src_tokens", "data.tgt_tokens", "translation.batch_tokens")
    refused(main(["doctor"]), "3,072 MiB requested on the GPU, 100 of 81,920 MiB free", *keys)

    def no_more(arguments):
        raise RuntimeError("cudaErrorMemoryAllocation: out of memory")

    monkeypatch.setattr(doctor, "run", no_more)
    what = "not enough memory (cudaErrorMemoryAllocation: out of memory, 100 of 81,920 MiB free)"
    refused(main(["doctor"]), what)


@pytest.mark.parametrize("precision", ["tf32", "bfloat16", "float16"])
def test_numpy_computes_in_float32_alone(precision):
    config = ModelConfig(vocab_size=5, n_layers=1, d_model=4, d_ff=4, n_heads=1)
    with pytest.raises(ConfigError, match="execution.precision must be float32 on the CPU, got"):
        Transformer(config, precision=precision)
    options = {"xp": SimpleNamespace(), "precision": precision}
    with pytest.raises(ConfigError, match="float32 with execution.kernels = "):
        Transformer(ModelConfig(vocab_size=5, n_layers=0), kernel_mode="simple", **options)
    with pytest.raises(ConfigError, match="float32 with model.dtype = "):
        Transformer(ModelConfig(vocab_size=5, n_layers=0, dtype="float64"), **options)
