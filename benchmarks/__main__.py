"""``python -m benchmarks``: all benchmarks, one after the other; with names, only those.

python -m benchmarks                 two hours on two cores, most of it wmt_scale; other work distorts the figures
python -m benchmarks growth --quick  small sizes and few repeats, to check that it runs
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

BENCHMARKS = {
    "training_step": "time of a training step beside PyTorch and beside our own matrix products",
    "step_memory": "peak memory of a training step beside PyTorch",
    "subwords": "time of learning and encoding subwords beside tokenizers, sentencepiece and subword-nmt",
    "wmt_scale": "time, memory and disk of every command of examples/wmt14, at its size",
    "decoding": "speed of translation beside Hugging Face Marian and CTranslate2",
    "growth": "how time and memory grow with length, batch, width, vocabulary and layers",
    "scaling": "two ranks, by shared memory and by MPI, beside one process",
    "gpu": "a GPU: correctness, updates and decoding beside PyTorch, memory, trainings (without one, nothing runs)",
}


def main(argv: Sequence[str] | None = None) -> int:
    lines = [f"  {name}: {what}" for name, what in BENCHMARKS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="\n".join(["Run the benchmarks and write their results to benchmarks/results.", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="a smoke test: small sizes, and no results are written")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        print(f"benchmarks: NAME must be one of {', '.join(BENCHMARKS)}, got {unknown[0]!r}", file=sys.stderr)
        return 2
    for name in options.names or BENCHMARKS:
        benchmark = importlib.import_module(f"benchmarks.{name}")
        if hasattr(benchmark, "__path__"):  # a folder: its command is its __main__
            benchmark = importlib.import_module(f"benchmarks.{name}.__main__")
        benchmark.main(["--quick"] if options.quick else [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
