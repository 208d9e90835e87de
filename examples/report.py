"""What the reports of benchmarks and experiments share: where a figure was measured, and Markdown tables."""

import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from minitransformer.blas import product_threads
from minitransformer.cli.doctor import CHECKS
from minitransformer.cuda_diagnosis import cuda_trouble

CODE = ("minitransformer", "benchmarks", "examples", ":!*/results/*")


def machine_facts() -> dict[str, str | int]:
    """Processor, cores, memory, threads, versions, commit of the code, the load before the measurement began, and the
    GPU if one was used."""
    return {
        "processor": processor_name(),
        "system": f"{platform.system()} {platform.machine()}",
        **{name: CHECKS[name]()[0] for name in ("cores", "memory", "Python", "NumPy", "BLAS")},
        "PyTorch": _torch_version(),
        "threads": product_threads(),
        "load": f"{os.getloadavg()[0]:.2f} in the minute before" if hasattr(os, "getloadavg") else "unknown",
        "commit": commit(),
        **_gpu(),
    }


def all_machines(results: Sequence[dict], fact: str) -> str:
    """One of the `machine_facts` of all results, each value once: ``071b709b8ead, a799c46d0ea6``. Where a GPU was used,
    it replaces the processor."""
    machines = [result["machine"] for result in results]
    found = {each["GPU"] if fact == "processor" and "GPU" in each else each[fact] for each in machines}
    return ", ".join(sorted(found))


def on_a_core(results: Sequence[dict]) -> list[dict]:
    """The results not computed on a GPU, whose seconds are those of a core."""
    return [result for result in results if "GPU" not in result["machine"]]


def of_this_maker(name: str) -> str:
    """``name`` of a result with the processor's maker, ``NAME.amd``, ``.intel`` or ``.other``: its speed does not hold
    for another maker, whose results are kept beside it."""
    processor = processor_name().lower()
    return f"{name}.{next((maker for maker in ('amd', 'intel') if maker in processor), 'other')}"


def processor_name() -> str:
    """Such as ``AMD EPYC``; "unknown" if the system does not say."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def commit() -> str:
    """The commit that is checked out, with ``+ changes`` if the measured code differs from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return f"{head} + changes" if _git("status", "--porcelain", "--", *CODE) else head
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _gpu() -> dict[str, str]:
    """The GPU, where CuPy has been loaded and can use one."""
    if "cupy" not in sys.modules or cuda_trouble():
        return {}
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return {"GPU": f"{name} (CuPy {cupy.__version__})"}


def _git(*words: str) -> str:
    run = subprocess.run(
        ["git", *words], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True, timeout=30
    )
    return run.stdout.strip()


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "not installed"


def time_and_memory(work: Callable[[], object], rounds: int) -> dict[str, float]:
    """Seconds (the lowest of ``rounds``, after an uncounted one) and peak bytes of arrays and objects."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"seconds": min(seconds[1:]), "bytes": peak}


def page(*blocks: str) -> str:
    """A page of Markdown: paragraphs, lists and tables with an empty line between them; empty blocks are left out."""
    return "\n\n".join(filter(None, blocks)) + "\n"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def facts_list(facts: dict) -> str:
    """What the figures depend on, as a list."""
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and extremes."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def with_extremes(found: dict[str, float], form: str) -> str:
    """A `spread` as ``7.0 (6.5 to 9.1)``.   form: of each number, as by `format`, such as ``.1f``"""
    return f"{found['median']:{form}} ({found['lowest']:{form}} to {found['highest']:{form}})"
