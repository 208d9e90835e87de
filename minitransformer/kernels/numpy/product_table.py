"""Which library multiplies which class of shapes: measured once per machine and kept in the user's cache folder.

A table maps a class to a name in `LIBRARIES`, the same for all, since only one other library may have threads; classes
that are not in it are NumPy's.
"""

import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import cycle
from pathlib import Path

import numpy as np

from minitransformer.blas import blas_kernels, blas_threads, core_count, limited_blas_threads, processor_name
from minitransformer.errors import BackendError, ConfigError, quoted
from minitransformer.files import read_bounded, write_text
from minitransformer.kernels.numpy import column_blocks
from minitransformer.kernels.numpy.cblas import Library
from minitransformer.kernels.numpy.libraries import LIBRARIES, installed, load

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
"""Another library must take at most this share of NumPy's time. Rounds; seconds of each class in each, and of the
pauses in which threads of the last library stop to spin; the load per core from which nothing is measured."""


def is_packed(name: str) -> bool:
    return name.startswith("packed")


def rows_class(n: int) -> str:
    """The class of a product by its rows alone, as of one with a packed factor."""
    return "one row" if n == 1 else "few rows" if n <= FEW_ROWS else "many rows"


def class_of(n: int, k: int, m: int) -> str:
    """The class of a product of two matrices, (n, k) and (k, m)."""
    return "small" if n > FEW_ROWS and n * k * m < SMALL else rows_class(n)


def classes_of(name: str) -> list[str]:
    """The classes that this library can form."""
    entry = LIBRARIES[name]
    return [each for each in CLASSES if (entry.packs or not is_packed(each)) and (entry.batches or each != "batched")]


def machine_table() -> tuple[Table, str]:
    """The table of this machine, and why it is this one.

    Raises:
        ConfigError: MINITRANSFORMER_BLAS has a value that it must not have.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "numpy", *LIBRARIES):
        raise ConfigError(f"{VARIABLE} must be one of numpy, {', '.join(LIBRARIES)}, got {quoted(wanted)}")
    if wanted == "numpy":
        return {}, f"{VARIABLE}=numpy"
    libraries, troubles = _usable([wanted] if wanted else installed())
    if not libraries:
        return {}, "; ".join(troubles) or "no other library is installed"
    if wanted:
        return dict.fromkeys(classes_of(wanted), wanted), f"{VARIABLE}={wanted}"
    table, reason = _kept_or_measured(libraries)
    return table, "; ".join([reason, *troubles])


def checked(table: object) -> Table:
    """``table`` if it is one and its library can be used, else an empty one."""
    return table if _is_table(table) and _usable(set(table.values()))[0] else {}


def _usable(names: Iterable[str]) -> tuple[dict[str, Library], list[str]]:
    """Those of the libraries that can be used, and why others cannot, which a line on standard error says as well."""
    libraries, troubles = {}, []
    for name in names:
        try:
            libraries[name] = load(name)
        except BackendError as error:
            troubles.append(str(error))
    for trouble in troubles:
        say(trouble if libraries else f"{trouble}; NumPy's BLAS is used")
    return libraries, troubles


def _is_table(table: object) -> bool:
    """Whether it maps classes to one library that can form them."""
    if not isinstance(table, dict) or not all(isinstance(name, str) and name in LIBRARIES for name in table.values()):
        return False
    return all(each in classes_of(name) for each, name in table.items()) and len(set(table.values())) <= 1


def described(table: object) -> str:
    """Such as "oneMKL (few rows), else NumPy's BLAS"."""
    if not _is_table(table):
        return "an unknown table"
    if not table:
        return "NumPy's BLAS"
    (name,) = set(table.values())
    title = LIBRARIES[name].title
    return title if len(table) == len(classes_of(name)) else f"{title} ({'; '.join(table)}), else NumPy's BLAS"


def _kept_or_measured(libraries: dict[str, Library]) -> tuple[Table, str]:
    """The table in the cache folder, or that of a measurement, which is then kept there; and the reason."""
    versions = {name: library.version for name, library in libraries.items()}
    titles = " and ".join(f"{LIBRARIES[name].title} {version}" for name, version in versions.items())
    ours = [np.__version__, blas_kernels(), column_blocks.WIDTH]
    facts = [processor_name(), core_count(), blas_threads(), ours, versions, list(CLASSES)]
    name = f"products-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.json"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "minitransformer"
    with suppress(OSError, ValueError, RecursionError):
        stored = json.loads(read_bounded(folder / name, 1 << 16))
        if _is_table(stored) and set(stored.values()) <= set(libraries):
            return stored, f"measured beside {titles}"
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * core_count():
        return {}, f"{titles}: not measured while the machine does other work"
    began = time.perf_counter()
    table = measure(libraries)
    say(f"measured in {time.perf_counter() - began:.1f} s: {described(table)}; kept in {folder / name}")
    with suppress(OSError, ConfigError):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, json.dumps(table))
    return table, f"measured beside {titles}"


def measure(libraries: dict[str, Library]) -> Table:
    """The table of the library that saves most."""
    shares = {name: shares_of_time(name, library) for name, library in libraries.items()}
    best = min(shares, key=lambda name: math.prod(shares[name].values()))
    return dict.fromkeys(shares[best], best)


def shares_of_time(library_name: str, library: Library) -> dict[str, float]:
    """Time by the library / time by NumPy in the last of ROUNDS rounds, of the classes it is faster for in each.

    Only one of two libraries may have threads (`lend_blas_threads`): so with packed factors, and without, it is all or
    nothing, but for a class that is faster by NumPy's BLAS even on one thread.
    """
    rng, found, classes = np.random.default_rng(0), [], classes_of(library_name)
    factors = {name: [rng.standard_normal(shape).astype(np.float32) for shape in CLASSES[name]] for name in classes}
    weight = factors["one row"][1]
    weights = [weight.copy() for _ in range(COPIES)]
    packed = [library.pack(each) for each in weights] if library.entry.packs else []
    blocks = [column_blocks.column_blocks(each) for each in weights]
    works = {}
    for name, (a, b) in factors.items():
        out, plain = a @ b, weights if b.shape == weight.shape else [b]
        ours = [partial(np.matmul, a, each, out=out) for each in plain]
        theirs = [partial(library.matmul, a, each, out, False) for each in plain]
        if is_packed(name):
            theirs = [partial(library.packed_matmul, a, each, b.shape[1]) for each in packed]
            if column_blocks.fits(a, b):
                ours = [partial(column_blocks.matmul, a, *each) for each in zip(blocks, plain, strict=True)]
        works[name] = [cycle(each) for each in (ours, theirs)]
    for _ in range(ROUNDS):
        times: dict[str, list[float]] = {name: [] for name in works}
        for way, limit in ((0, blas_threads() or 1), (0, 1), (1, blas_threads() or 1)):
            time.sleep(PAUSE)
            with limited_blas_threads(limit):
                for name, work in works.items():
                    times[name].append(_seconds(work[way]))
        for has_packed in (False, True):
            group = {name: times[name] for name in classes if is_packed(name) == has_packed}
            if math.prod(other / numpy for numpy, _, other in group.values()) <= GAIN ** len(group):
                found += [name for name, (_, one, other) in group.items() if other <= one]
    return {name: times[name][2] / times[name][0] for name in classes if found.count(name) == ROUNDS}


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
