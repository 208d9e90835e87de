"""What `benchmarks.gpu` measures, stage by stage.

Each stage runs in a process of its own and prints JSON objects: after each of its parts, all that it has measured so
far.

python -m benchmarks.gpu.stages NAME [--quick] [--seconds N] [--data FOLDER] [--runs FOLDER]
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.common.work import Size
from benchmarks.gpu.curves import curves, like_the_cpu
from benchmarks.gpu.decoding import decoding, newstest
from benchmarks.gpu.kernels import kernels
from benchmarks.gpu.nccl import nccl
from benchmarks.gpu.real_batches import real_batches
from benchmarks.gpu.recipes import trained
from benchmarks.gpu.stage_process import end_with_caller, one_by_one
from benchmarks.gpu.steps import Device, copy_rate, first_updates, mean_seconds, steps
from examples.report import machine_facts
from minitransformer.backend import load_array_module
from minitransformer.blas import core_count
from minitransformer.cli.doctor import CHECKS
from minitransformer.config import ModelConfig
from minitransformer.cuda_diagnosis import cuda_trouble
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.precision import half_dtype

BASE = Size("base", ModelConfig.base(), 1000, 25, 5, 5)
BIG = Size("big", ModelConfig.big(), 1000, 25, 5, 3)
QUICK = Size("quick", ModelConfig(vocab_size=300, n_layers=1, d_model=16, d_ff=16, n_heads=2), 2, 6, 1, 1)
QUICK_TRAINING = ("training.updates=60", "training.validate_every=30", "training.save_every=10", "model.n_layers=1")
CARD = "nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,power.limit --format=csv"
RUNS = Path("runs") / "gpu"
TESTS = ("tests/gpu", "tests/kernels")
"""Where the tests that need a GPU are."""


def doctor(rehearsed: bool) -> dict:
    """The machine, its card, driver and versions; ``failed`` if the card cannot compute."""
    facts = machine_facts() | {name: CHECKS[name]()[0] for name in ("CuPy", "driver", "NCCL")}
    if rehearsed:
        return {"says": "no card: a rehearsal", "machine": facts | {"card": "none"}}
    if trouble := cuda_trouble():
        return {"failed": trouble}
    import cupy

    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    try:
        told = subprocess.run(CARD.split(), capture_output=True, text=True, timeout=10).stdout.strip().split("\n")
    except (OSError, subprocess.TimeoutExpired) as error:
        told = [str(error)]
    return {"says": f"{card}, driver {facts['driver']}", "machine": facts | {"card": card, "nvidia-smi": told[-1]}}


def ceilings(device: Device, n: int) -> dict:
    """What the device can do at most, measured: products of random matrices, and a copy."""
    rng, xp = np.random.default_rng(0), device.xp
    factors = [rng.standard_normal((n, n), dtype=np.float32) for _ in range(2)]

    def products(what: str) -> float:
        precision = what.partition(" ")[0]
        dtype = np.float32 if precision in ("float32", "tf32") else half_dtype(precision)
        a, b = (xp.asarray(factor.astype(dtype)) for factor in factors)
        out = xp.empty((n, n), dtype)
        return 2 * n**3 / 1e12 / mean_seconds(lambda: matmul(a, b, out=out, tf32=precision == "tf32"), device)

    names = [f"{name} TFLOP/s" for name in ("float32", "tf32", "bfloat16", "float16")]
    found = one_by_one(names, products, {}, device.wait)
    found = one_by_one(["copy TB/s"], lambda _: copy_rate(device, n), found, device.wait)
    return found | {"says": ", ".join(f"{name} {each:.3g}" for name, each in found.items() if isinstance(each, float))}


def correctness(log: Path, seconds: float, *where: str) -> dict:
    """The tests with the mark gpu: those of rules and kernels, and whole trainings. What pytest prints goes to ``log``.

    With pytest-xdist they run in eight processes, because an illegal access ends all later tests in the same process;
    with pytest-timeout none takes more than 100 seconds.
    """
    command = [sys.executable, "-m", "pytest", *where, "-vv", "-m", "gpu", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-n", str(min(8, core_count()))] if find_spec("xdist") else []
    command += ["--timeout=100"] if find_spec("pytest_timeout") else []
    log.parent.mkdir(parents=True, exist_ok=True)
    failure = {}
    with log.open("w", encoding="utf-8") as file:
        try:
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=seconds).returncode
            failure = {"failed": f"exit code {code} of pytest; see {log}"} if code else {}
        except subprocess.TimeoutExpired:
            failure = {"failed": f"not done after {seconds:.0f} seconds"}
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    ended = [
        found for line in lines if "%]" in line and (found := re.search(r"\b(PASSED|FAILED|SKIPPED|ERROR)\b", line))
    ]
    counts = Counter(found[1].lower() for found in ended)
    result = {"log": log.name, **counts, "says": ", ".join(f"{n} {how}" for how, n in counts.items())}
    wrong = sorted({line.split(" - ")[0].split(maxsplit=1)[1] for line in lines if re.match("(FAILED|ERROR) ", line)})
    parts = {name: {"failed": "see the log"} for name in wrong}
    return result | failure | ({"tests": parts} if parts else {})


class Stage(NamedTuple):
    """A stage, the seconds that it may take, and whether it belongs to the first run."""

    limit: float
    run: Callable[[Device, argparse.Namespace], dict]
    is_first: bool = True


def _steps(
    of: Size, precisions: Sequence[str], peers: Sequence[str], device: Device, asked: argparse.Namespace
) -> dict:
    if "compiled" in peers and device.xp is np:
        return {"left out": "torch.compile is not rehearsed"}
    return steps(_size(of, asked), precisions, device, peers)


def _trained(device: Device, asked: argparse.Namespace) -> dict:
    folder, changes = asked.runs / ("quick" if asked.quick else "multi30k"), QUICK_TRAINING if asked.quick else ()
    if device.xp is np:
        return {"left out": "it trains on a GPU"}
    return trained(asked.data, folder, asked.seconds, changes=changes)


def _like_the_cpu(device: Device, asked: argparse.Namespace) -> dict:
    return like_the_cpu(device, *((3, QUICK.model, 2) if asked.quick else ()))


def _size(size: Size, asked: argparse.Namespace) -> Size:
    return QUICK if asked.quick else size


STAGES: dict[str, Stage] = {
    "doctor": Stage(40, lambda device, asked: doctor(device.xp is np)),
    "compile": Stage(
        80, lambda device, asked: first_updates(_size(BASE, asked), ("bfloat16", "float32", "float16"), device)
    ),
    "tests": Stage(
        150,
        lambda device, asked: correctness(
            asked.runs / "tests.log", asked.seconds - 5, *(["tests/gpu/test_gpu_training.py"] if asked.quick else TESTS)
        ),
    ),
    "like the CPU": Stage(45, _like_the_cpu),
    "ceilings": Stage(25, lambda device, asked: ceilings(device, 64 if asked.quick else 8192)),
    "base": Stage(45, partial(_steps, BASE, ("bfloat16",), ("eager",))),
    "base, plain kernels": Stage(45, partial(_steps, BASE, ("float32",), ("plain", "eager"))),
    "base, compiled": Stage(90, partial(_steps, BASE, ("bfloat16",), ("compiled",))),
    "kernels": Stage(30, lambda device, asked: kernels(_size(BASE, asked), device, 16 if asked.quick else 8192)),
    "decoding": Stage(45, lambda device, asked: decoding(_size(BASE, asked), device, 2 if asked.quick else 512)),
    "multi30k": Stage(120, _trained),
    "nccl": Stage(45, lambda device, asked: nccl(device, *((1000, QUICK) if asked.quick else (63_045_632,)))),
    "base, tf32": Stage(45, partial(_steps, BASE, ("tf32",), ("eager",)), False),
    "base, float16": Stage(45, partial(_steps, BASE, ("float16",), ()), False),
    "base, tf32 compiled": Stage(240, partial(_steps, BASE, ("tf32",), ("compiled",)), False),
    "big": Stage(120, partial(_steps, BIG, ("bfloat16",), ("eager",)), False),
    "big, compiled": Stage(240, partial(_steps, BIG, ("bfloat16",), ("compiled",)), False),
    "micro-batches": Stage(90, lambda device, asked: real_batches(_size(BASE, asked), device, asked.data), False),
    "curves": Stage(
        120,
        lambda device, asked: curves(device, ("tf32", "bfloat16", "float16"), *((20, 10) if asked.quick else ())),
        False,
    ),
    "newstest": Stage(
        400,
        lambda device, asked: newstest(_size(BASE, asked), device, asked.data, 300 if asked.quick else 1),
        False,
    ),
    "multi30k to the end": Stage(540, _trained, False),
}
"""From the most to the least valuable."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.stages", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=STAGES)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--rehearse", action="store_true", help="on the emulated kernels of the tests, without a GPU")
    parser.add_argument("--seconds", type=float, default=500.0, metavar="N", help="after which a training must be over")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder with multi30k/, newstest/ ...")
    parser.add_argument(
        "--runs", type=Path, metavar="FOLDER", default=RUNS, help=f"folder of trainings and logs (default: {RUNS})"
    )
    parser.add_argument("--alive", type=int, metavar="FD", help="end when the other end of this pipe is closed")
    options = parser.parse_args(argv)
    if options.alive is not None:
        end_with_caller(options.alive)
    if options.rehearse:
        from benchmarks.gpu.rehearsal import emulated_device

        device = emulated_device(options.runs / "emulated")
    else:  # the doctor says itself why there is no card
        device = Device(None if options.name == "doctor" else load_array_module("cuda"), "cuda")
    result = STAGES[options.name].run(device, options)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
