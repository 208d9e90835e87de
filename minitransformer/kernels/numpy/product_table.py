"""Which library multiplies which class of shapes: measured once per machine and kept in the user's cache folder.

A table maps a class to ``"mkl"``; classes that are not in it are NumPy's. Without oneMKL it is empty.
"""

import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import cycle
from pathlib import Path

import numpy as np

from minitransformer.blas import blas_threads, core_count, limited_blas_threads, processor_name
from minitransformer.errors import BackendError, ConfigError, quoted
from minitransformer.files import read_bounded, write_text
from minitransformer.kernels.numpy import mkl

Table = dict[str, str]

VARIABLE = "MINITRANSFORMER_BLAS"
FEW_ROWS, SMALL = 16, 1 << 25
"""The most that are few; multiplications of a product that is small."""

CLASSES = {
    "one row": ((1, 512), (512, 2048)),
    "few rows": ((8, 512), (512, 2048)),
    "many rows": ((1024, 512), (512, 512)),
    "small": ((1024, 64), (64, 256)),
    "batched": ((64, 8, 32, 64), (64, 8, 64, 32)),
    "packed, one row": ((1, 512), (512, 2048)),
    "packed, few rows": ((8, 512), (512, 2048)),
    "packed, many rows": ((128, 512), (512, 2048)),
}
"""The factors that stand for each class; packed: the right one is a matrix of a model that only translates."""

COPIES = 12
"""Weights of 512 x 2048 that are taken in turn, 50 MB: in a step of decoding, too, none is in the processor's cache."""

GAIN, ROUNDS, SECONDS, PAUSE, BUSY = 0.95, 2, 0.03, 0.25, 0.7
"""oneMKL must take at most this share of NumPy's time. Rounds; seconds of each class in each, and of the pauses in
which threads of the last library stop to spin; the load per core from which nothing is measured."""


def is_packed(name: str) -> bool:
    return name.startswith("packed")


def rows_class(n: int) -> str:
    """The class of a product by its rows alone, as of one with a packed factor."""
    return "one row" if n == 1 else "few rows" if n <= FEW_ROWS else "many rows"


def class_of(n: int, k: int, m: int) -> str:
    """The class of a product of two matrices, (n, k) and (k, m)."""
    return "small" if n > FEW_ROWS and n * k * m < SMALL else rows_class(n)


def machine_table() -> tuple[Table, str]:
    """The table of this machine, and why it is this one.

    Raises:
        ConfigError: MINITRANSFORMER_BLAS has a value that it must not have.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "numpy", "mkl"):
        raise ConfigError(f"{VARIABLE} must be numpy or mkl, got {quoted(wanted)}")
    if wanted == "numpy":
        return {}, f"{VARIABLE}=numpy"
    library, trouble = _library()
    if library is None:
        return {}, trouble
    if wanted:
        return dict.fromkeys(CLASSES, "mkl"), f"{VARIABLE}=mkl"
    return _kept_or_measured(library)


def checked(table: object) -> Table:
    """``table`` if it is one and oneMKL can be used where it says so, else an empty one."""
    is_table = isinstance(table, dict) and all(name in CLASSES and table[name] == "mkl" for name in table)
    return table if is_table and table and _library()[0] else {}


def _library() -> tuple[mkl.Library | None, str]:
    """oneMKL, or why it is not used; if it is installed, one line on standard error says so."""
    try:
        return mkl.load(), "the extra mkl is not installed"
    except BackendError as error:
        say(f"{error}; NumPy's BLAS is used")
        return None, str(error)


def described(table: object) -> str:
    """Such as "oneMKL (few rows), else NumPy's BLAS"."""
    if not isinstance(table, dict) or not set(table) <= set(CLASSES):
        return "an unknown table"
    if len(table) in (0, len(CLASSES)):
        return "oneMKL" if table else "NumPy's BLAS"
    return f"oneMKL ({'; '.join(table)}), else NumPy's BLAS"


def _kept_or_measured(library: mkl.Library) -> tuple[Table, str]:
    """The table in the cache folder, or that of a measurement, which is then kept there; and the reason."""
    facts = [processor_name(), core_count(), blas_threads(), np.__version__, library.version, list(CLASSES)]
    name = f"products-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.json"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "minitransformer"
    with suppress(OSError, ValueError, RecursionError):
        stored = json.loads(read_bounded(folder / name, 1 << 16))
        if stored == {} or checked(stored):
            return stored, f"measured beside oneMKL {library.version}"
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * core_count():
        return {}, "oneMKL is not measured beside it while the machine does other work"
    began = time.perf_counter()
    table = measure(library)
    say(f"measured in {time.perf_counter() - began:.1f} s: {described(table)}; kept in {folder / name}")
    with suppress(OSError, ConfigError):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, json.dumps(table))
    return table, f"measured beside oneMKL {library.version}"


def measure(library: mkl.Library) -> Table:
    """The classes that oneMKL is faster for in each of ROUNDS rounds.

    Only one of two libraries may have threads (`lend_blas_threads`): so with packed factors, and without, it is all or
    nothing, but for a class that is faster by NumPy's BLAS even on one thread.
    """
    rng, found = np.random.default_rng(0), []
    factors = {name: [rng.standard_normal(shape).astype(np.float32) for shape in CLASSES[name]] for name in CLASSES}
    weight = factors["one row"][1]
    weights = [weight.copy() for _ in range(COPIES)]
    packed = [library.pack(each) for each in weights]
    works = {}
    for name, (a, b) in factors.items():
        out, plain = a @ b, weights if b.shape == weight.shape else [b]
        theirs = [partial(library.matmul, a, each, out, False) for each in plain]
        if is_packed(name):
            theirs = [partial(library.packed_matmul, a, each, b.shape[1]) for each in packed]
        works[name] = [cycle(each) for each in ([partial(np.matmul, a, each, out=out) for each in plain], theirs)]
    for _ in range(ROUNDS):
        times: dict[str, list[float]] = {name: [] for name in works}
        for way, limit in ((0, blas_threads() or 1), (0, 1), (1, blas_threads() or 1)):
            time.sleep(PAUSE)
            with limited_blas_threads(limit):
                for name, work in works.items():
                    times[name].append(_seconds(work[way]))
        for has_packed in (False, True):
            group = {name: times[name] for name in CLASSES if is_packed(name) == has_packed}
            if math.prod(other / numpy for numpy, _, other in group.values()) <= GAIN ** len(group):
                found += [name for name, (_, one, other) in group.items() if other <= one]
    return {name: "mkl" for name in CLASSES if found.count(name) == ROUNDS}


def _seconds(calls: Iterator[Callable[[], object]]) -> float:
    """The median time of a call."""
    began, times = time.perf_counter(), []
    while (start := time.perf_counter()) < began + SECONDS:
        next(calls)()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@cache
def say(text: str) -> None:
    """Once in a process, on standard error."""
    print(f"minitransformer: products: {text}", file=sys.stderr)
