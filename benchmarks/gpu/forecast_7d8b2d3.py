"""The forecast for commit 7d8b2d3, where an estimate by hand was 36 to 48 ms an update of base: a check of its table.

    git worktree add --detach OLD 7d8b2d3
    python -m benchmarks.gpu.forecast_7d8b2d3 OLD

Recorder, rates and shares are today's. Modules and functions that had other names there are given today's, and kernels
that are gone today are in the class of the kernel that does most nearly the same. Kernels that have been rewritten
under their name have today's share as well; a second sum is made with the shares that described them then.

It prints the table; benchmarks/results/gpu_forecast_7d8b2d3.md is what it has printed.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

COMMIT = "7d8b2d3"
CLASSES = {"softmax_forward": "cross_entropy", "softmax_backward": "cross_entropy", "scatter_add": "add_tiles"}
"""Of the kernels that are gone: softmax of a row, and the embedding's gradient."""
THEN = {"norm_backward": 0.42, "cross_entropy": 0.45, "softmax_forward": 0.23, "softmax_backward": 0.23}
THEN |= {"scatter_add": 0.10}
"""The shares of commit 0ebd6eb for its kernels: a quarter of the threads fit, loads of two and four bytes, one block
for each word."""


def adapt(tree: Path) -> None:
    """Import the package from ``tree``, with the names of today that the recorder and `steps` use."""
    sys.path.insert(0, str(tree))
    from minitransformer import kernels, nn, training
    from minitransformer.cli import doctor
    from minitransformer.config import Config
    from minitransformer.kernels.cupy import gemm, gemm_lt
    from minitransformer.nn import randomness, transformer

    _import_todays("minitransformer.blas")
    doctor.CHECKS["products"] = lambda: ("NumPy's BLAS", "")
    _rename(gemm, "_cublas", "cublas_library")
    _rename(gemm, "_handle", "cublas_handle")
    _rename(gemm_lt, "_place", "current_device")
    kernels.HalfCopy = lambda vector: SimpleNamespace(kept=nullcontext)  # there each parameter is cast where it is used
    randomness.ShapesOnly = lambda: SimpleNamespace(xavier=_zeros, normal=_zeros)
    training.GradientAccumulator = lambda parameters, scale: scale
    training.step._numbers = lambda losses: losses  # arrays without values are NumPy's, but stay where they are
    training.train_step = _with_todays_options(training.train_step)
    Config.load = lambda path, settings: Config()  # recipes of today, which this commit cannot read, are left out
    _add_module("minitransformer.models", Transformer=nn.Transformer, base=transformer)
    _add_module("minitransformer.training.graphs", GraphedLoss=None)
    _add_module("minitransformer.planning", Shape=None, plan=None)
    _add_module("minitransformer.planning.flops", batch_flops=None)


def _import_todays(name: str) -> None:
    """A module of today's package, which imports nothing else of it: here the one that names the processor."""
    path = Path(__file__).parents[2].joinpath(*name.split(".")).with_suffix(".py")
    spec = spec_from_file_location(name, path)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)


def _rename(module: ModuleType, old: str, new: str) -> None:
    """``new`` is the function ``old``, whose callers call ``new`` from now on, so that it can be replaced."""
    setattr(module, new, getattr(module, old))
    setattr(module, old, lambda: getattr(module, new)())


def _zeros(*shape: int) -> np.ndarray:
    return np.broadcast_to(0.0, shape)


def _with_todays_options(train_step: Callable) -> Callable:
    def called(*inputs: Any, accumulator: Any, **options: Any) -> Any:
        return train_step(*inputs, loss_scale=accumulator, **options)

    return called


def _argsort(x: Any, kind: str) -> Any:
    """CuPy's own, which the update of today does without."""
    from benchmarks.gpu.meta_arrays import MetaArray, empty

    order = empty(x.shape, np.int64)
    MetaArray.listener.operation("argsort", [x], [order])
    return order


def _add_module(name: str, **contents: Any) -> None:
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(contents)


def table(tree: Path) -> str:
    """The forecast for base, and its sum with the shares of the time."""
    adapt(tree)
    from benchmarks.common.machine import machine_facts
    from benchmarks.common.tables import facts_list
    from benchmarks.gpu import forecast, host_time

    facts, work = machine_facts(), forecast.WORKLOADS["base"]

    def build(cupy: ModuleType) -> Callable[[], object]:
        cupy.argsort = _argsort
        return forecast.build(work, "bfloat16", cupy)

    calls = host_time.recorded(build)
    with patch.dict(forecast.CLASSES, CLASSES):
        lines = forecast.report("base", work, forecast.forecast_of(calls))
    shares = {name: forecast.Share(value, "") for name, value in THEN.items()}
    with patch.dict(forecast.SHARES, shares):
        then = forecast.forecast_of(calls).sum("device")
    lines += ["", f"With the shares of commit 0ebd6eb for kernels that were rewritten or are gone: {then:.1f} ms"]
    lines += [f"({', '.join(f'{name} {value:.2f}' for name, value in THEN.items())})."]
    return "\n".join([f"# Forecast for the code of commit {COMMIT}", "", *NOTE, "", *lines, "", *facts_list(facts)])


NOTE = [
    "`python -m benchmarks.gpu.forecast_7d8b2d3 OLD`, with that commit checked out in OLD. Recorder, rates and shares",
    "are those of [gpu_forecast.md](gpu_forecast.md); `softmax_forward` and `softmax_backward` have the share of",
    "`cross_entropy`, `scatter_add` that of `add_tiles`, which took its place. An estimate by hand was 36 to 48 ms.",
]


def main(argv: Sequence[str] | None = None) -> int:
    (tree,) = sys.argv[1:] if argv is None else argv
    print(table(Path(tree)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
