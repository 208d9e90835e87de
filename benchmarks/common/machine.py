"""Where a measurement was made: a figure without its machine and versions means nothing."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from minitransformer.blas import processor_name, product_threads
from minitransformer.cli.doctor import CHECKS

CODE = ("minitransformer", "benchmarks", ":!benchmarks/results")


def machine_facts() -> dict[str, str | int]:
    """Processor, cores, memory, threads, versions, commit of the code, and the load before the measurement began."""
    return {
        "processor": processor_name(),
        "system": f"{platform.system()} {platform.machine()}",
        **{name: CHECKS[name]()[0] for name in ("cores", "memory", "Python", "NumPy", "BLAS")},
        "PyTorch": _torch_version(),
        "threads": threads_for_peers(),
        "load": f"{os.getloadavg()[0]:.2f} in the minute before" if hasattr(os, "getloadavg") else "unknown",
        "commit": commit(),
    }


def of_this_maker(name: str) -> str:
    """``name`` of a result with the processor's maker, ``NAME.amd``, ``.intel`` or ``.other``: its speed does not hold
    for another's, whose results lie beside it."""
    processor = processor_name().lower()
    return f"{name}.{next((maker for maker in ('amd', 'intel') if maker in processor), 'other')}"


def threads_for_peers() -> int:
    """As many as large products of ours have (OPENBLAS_NUM_THREADS limits both)."""
    return product_threads()


def commit() -> str:
    """The commit that is checked out, with ``+ changes`` if the measured code differs from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return f"{head} + changes" if _git("status", "--porcelain", "--", *CODE) else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    run = subprocess.run(
        ["git", *words], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True, timeout=30
    )
    return run.stdout.strip()


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "not installed"
