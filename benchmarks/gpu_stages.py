"""What `benchmarks.gpu` measures, stage by stage; each runs in a process of its own and prints one JSON object.

python -m benchmarks.gpu_stages NAME [--quick]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.gpu_curves import curves
from benchmarks.gpu_nccl import nccl
from benchmarks.gpu_steps import WARM_UP, Place, ops, reason, same_loss, steps
from benchmarks.work import Size
from minitransformer.backend import load_array_module
from minitransformer.config import EOS, UNK, ModelConfig
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.precision import half_dtype
from minitransformer.nn import Transformer
from minitransformer.translation import beam_search

BASE = Size("base", ModelConfig.base(), 1000, 25, 5, 5)
BIG = Size("big", ModelConfig.big(), 1000, 25, 5, 3)
QUICK = Size("quick", ModelConfig(vocab_size=1000, n_layers=1, d_model=64, d_ff=128, n_heads=2), 8, 25, 1, 1)


def ceilings(place: Place, n: int = 8192) -> dict:
    """What the device can do at most, measured: products of random matrices, and a copy."""
    rng, xp, found = np.random.default_rng(0), place.xp, {}
    factors = [rng.standard_normal((n, n)).astype(np.float32) for _ in range(2)]
    for precision in ("float32", "tf32", "bfloat16", "float16"):
        dtype = np.float32 if precision in ("float32", "tf32") else half_dtype(precision)
        a, b = (xp.asarray(factor.astype(dtype)) for factor in factors)
        out = xp.empty((n, n), dtype)
        seconds = _timed(lambda a=a, b=b, out=out, tf32=precision == "tf32": matmul(a, b, out=out, tf32=tf32), place)
        found[f"{precision} TFLOP/s"] = 2 * n**3 / seconds / 1e12
    source = xp.zeros(n * n * 8, np.float32)
    target = xp.empty_like(source)
    found["copy TB/s"] = 2 * source.nbytes / _timed(lambda: target.__setitem__(..., source), place) / 1e12
    return found


def decoding(size: Size, place: Place, sentences: int = 512) -> dict:
    """Beam 4, random weights, as many tokens out as in; beside Hugging Face Marian with the same weights."""
    model = Transformer(size.model, seed=1, xp=place.xp)
    model.embedding.data[: EOS + 1] = 0.0  # no output ends by itself
    rng = np.random.default_rng(0)
    words = rng.integers(UNK + 1, size.model.vocab_size, (sentences, size.tokens - 1))
    src = np.concatenate([words, np.full((sentences, 1), EOS)], axis=1)
    runners = {"ours": lambda: beam_search(model, src, beam_size=4, alpha=0.0, max_extra=0)}
    result: dict = {"sentences": sentences, "new tokens": size.tokens - 1}
    try:
        runners["Marian"] = _marian(model, src, place)
        runners["Marian"]()
    except Exception as error:
        result["Marian failed"] = reason(error)
        runners.pop("Marian", None)
    for name, run in runners.items():
        run()
        times = [_once(run, place) for _ in range(3)]
        result[name] = {"sentences/s": sentences / statistics.median(times), "seconds": times}
    return result


def correctness(place: Place) -> dict:
    """The tests of tests/gpu. Their last lines are kept."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/gpu", "-p", "no:cacheprovider", "--tb=short"]
    run = subprocess.run(command, capture_output=True, text=True)
    return {"exit status": run.returncode, "end": run.stdout.split("\n")[-60:] + run.stderr.split("\n")[-5:]}


STAGES: dict[str, Callable[[Place, bool], dict]] = {
    "correctness": lambda place, quick: correctness(place),
    "ceilings": lambda place, quick: ceilings(place, 64 if quick else 8192),
    "same loss": lambda place, quick: same_loss(replace(_size(BASE, quick), sentences=100), place),
    "base": lambda place, quick: steps(
        _size(BASE, quick), ("bfloat16", "tf32", "float32", "float16"), place, ("eager",)
    ),
    "ops": lambda place, quick: ops(_size(BASE, quick), "bfloat16", place),
    "decoding": lambda place, quick: decoding(_size(BASE, quick), place, 8 if quick else 512),
    "big": lambda place, quick: steps(_size(BIG, quick), ("bfloat16", "tf32"), place, ("eager",)),
    "base compiled": lambda place, quick: steps(_size(BASE, quick), ("bfloat16", "tf32"), place, ("compiled",)),
    "big compiled": lambda place, quick: steps(_size(BIG, quick), ("bfloat16",), place, ("compiled",)),
    "curves": lambda place, quick: curves(
        place, ("float32", "tf32", "bfloat16", "float16"), *((20, 10) if quick else ())
    ),
    "nccl": lambda place, quick: nccl(place, 1000 if quick else 63_045_632),
}


def _size(size: Size, quick: bool) -> Size:
    return QUICK if quick else size


def _marian(model: Transformer, src: np.ndarray, place: Place) -> Callable[[], object]:
    import torch

    from benchmarks.marian import marian_model

    marian, ids = marian_model(model).to(place.torch_device), torch.from_numpy(src).to(place.torch_device)

    def translate() -> object:
        torch.backends.cuda.matmul.allow_tf32 = False
        with torch.inference_mode():
            options = {"num_beams": 4, "max_new_tokens": src.shape[1] - 1, "do_sample": False, "length_penalty": 0.0}
            return marian.generate(ids, attention_mask=torch.ones_like(ids), **options).cpu()

    return translate


def _timed(work: Callable[[], object], place: Place, repeats: int = 20) -> float:
    """Seconds of one call, the mean of ``repeats`` after three."""
    for _ in range(WARM_UP):
        work()
    return _once(lambda: [work() for _ in range(repeats)], place) / repeats


def _once(work: Callable[[], object], place: Place) -> float:
    place.wait()
    began = time.perf_counter()
    work()
    place.wait()
    return time.perf_counter() - began


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_stages", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=STAGES)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(argv)
    result = STAGES[options.name](Place(load_array_module("cuda"), "cuda"), options.quick)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
