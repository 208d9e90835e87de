"""What `benchmarks.gpu` measures, stage by stage; each runs in a process of its own and prints JSON objects: after each
of its parts all that it has measured so far.

python -m benchmarks.gpu.stages NAME [--quick] [--seconds N] [--data FOLDER] [--runs FOLDER] [--log FILE]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.common.work import Size
from benchmarks.gpu.curves import curves
from benchmarks.gpu.decoding import decoding, newstest
from benchmarks.gpu.nccl import nccl
from benchmarks.gpu.real_batches import real_batches
from benchmarks.gpu.recipes import trained
from benchmarks.gpu.stage_process import end_with_caller, one_by_one
from benchmarks.gpu.steps import WARM_UP, Device, once, ops, same_loss, steps
from minitransformer.backend import load_array_module
from minitransformer.config import ModelConfig
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.precision import half_dtype

BASE = Size("base", ModelConfig.base(), 1000, 25, 5, 5)
BIG = Size("big", ModelConfig.big(), 1000, 25, 5, 3)
RUNS = Path("runs") / "gpu"
LOG = "gpu-tests.log"
QUICK_TRAINING = ("training.updates=60", "training.validate_every=30", "training.save_every=10", "model.n_layers=1")
QUICK = Size("quick", ModelConfig(vocab_size=1000, n_layers=1, d_model=64, d_ff=128, n_heads=2), 8, 25, 1, 1)


def ceilings(device: Device, n: int = 8192) -> dict:
    """What the device can do at most, measured: products of random matrices, and a copy."""
    rng, xp = np.random.default_rng(0), device.xp
    factors = [rng.standard_normal((n, n)).astype(np.float32) for _ in range(2)]

    def products(what: str) -> float:
        precision = what.partition(" ")[0]
        dtype = np.float32 if precision in ("float32", "tf32") else half_dtype(precision)
        a, b = (xp.asarray(factor.astype(dtype)) for factor in factors)
        out = xp.empty((n, n), dtype)
        return 2 * n**3 / 1e12 / _timed(lambda: matmul(a, b, out=out, tf32=precision == "tf32"), device)

    def copies(what: str) -> float:
        source = xp.zeros(n * n * 8, np.float32)
        target = xp.empty_like(source)
        return 2 * source.nbytes / 1e12 / _timed(lambda: target.__setitem__(..., source), device)

    found = one_by_one([f"{name} TFLOP/s" for name in ("float32", "tf32", "bfloat16", "float16")], products, {})
    return one_by_one(["copy TB/s"], copies, found)


def correctness(log: Path) -> dict:
    """The tests with the mark gpu. All that pytest prints goes to ``log`` at once, its last lines are kept.

    With pytest-xdist they run in eight processes, as an illegal access ends all tests after it in the same process;
    with pytest-timeout none takes more than 150 seconds.
    """
    command = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-n", "8"] if find_spec("xdist") else []
    command += ["--timeout=150"] if find_spec("pytest_timeout") else []
    log.parent.mkdir(parents=True, exist_ok=True)
    print(json.dumps({"log": str(log)}), flush=True)
    with log.open("w", encoding="utf-8") as file:
        run = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT)
    end = log.read_text(encoding="utf-8", errors="replace").split("\n")[-60:]
    result = {"log": str(log), "exit status": run.returncode, "end": end}
    return result | ({"failed": f"exit status {run.returncode} of pytest"} if run.returncode else {})


STAGES: dict[str, Callable[[Device, argparse.Namespace], dict]] = {
    "correctness": lambda device, asked: correctness(asked.log),
    "ceilings": lambda device, asked: ceilings(device, 64 if asked.quick else 8192),
    "same loss": lambda device, asked: same_loss(replace(_size(BASE, asked), sentences=100), device),
    "base": lambda device, asked: steps(
        _size(BASE, asked), ("bfloat16", "tf32", "float32", "float16"), device, ("eager",)
    ),
    "ops": lambda device, asked: ops(_size(BASE, asked), "bfloat16", device),
    "micro-batches": lambda device, asked: real_batches(_size(BASE, asked), "bfloat16", device, asked.data),
    "decoding": lambda device, asked: decoding(_size(BASE, asked), device, 8 if asked.quick else 512),
    "newstest": lambda device, asked: newstest(_size(BASE, asked), device, asked.data, every=300 if asked.quick else 1),
    "big": lambda device, asked: steps(_size(BIG, asked), ("bfloat16", "tf32"), device, ("eager",)),
    "base compiled": lambda device, asked: steps(_size(BASE, asked), ("bfloat16",), device, ("compiled",)),
    "base compiled, tf32": lambda device, asked: steps(_size(BASE, asked), ("tf32",), device, ("compiled",)),
    "big compiled": lambda device, asked: steps(_size(BIG, asked), ("bfloat16",), device, ("compiled",)),
    "curves": lambda device, asked: curves(
        device, ("float32", "tf32", "bfloat16", "float16"), *((20, 10) if asked.quick else ())
    ),
    "nccl": lambda device, asked: nccl(device, 1000 if asked.quick else 63_045_632),
    "multi30k": lambda device, asked: trained(
        asked.data,
        asked.runs / ("quick" if asked.quick else "multi30k"),
        asked.seconds,
        changes=QUICK_TRAINING if asked.quick else (),
    ),
}


def _size(size: Size, asked: argparse.Namespace) -> Size:
    return QUICK if asked.quick else size


def _timed(work: Callable[[], object], device: Device, repeats: int = 20) -> float:
    """Seconds of one call, the mean of ``repeats`` after three."""
    for _ in range(WARM_UP):
        work()
    return once(lambda: [work() for _ in range(repeats)], device) / repeats


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.stages", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=STAGES)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--seconds", type=float, default=500.0, metavar="N", help="after which a training must be over")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with multi30k/, newstest/ ...")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", default=RUNS, help=f"of trainings (default: {RUNS})")
    parser.add_argument(
        "--log", type=Path, metavar="FILE", default=RUNS / LOG, help=f"of pytest (default: {RUNS / LOG})"
    )
    parser.add_argument("--alive", type=int, metavar="FD", help="end when the other end of this pipe is closed")
    options = parser.parse_args(argv)
    if options.alive is not None:
        end_with_caller(options.alive)
    result = STAGES[options.name](Device(load_array_module("cuda"), "cuda"), options)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
