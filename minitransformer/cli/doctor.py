"""``doctor``: what this machine has for training, and how to install what is missing."""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from minitransformer.blas import core_count, product_threads
from minitransformer.errors import install_hint

Finding = tuple[str, str]
"""What was found ("" if nothing), and the remedy or a remark ("" if none is needed)."""

GIB = 1 << 30


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("doctor", help="what this machine has for training, and what is missing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    for name, check in CHECKS.items():
        try:
            found, remark = check()
        except Exception as error:  # a broken installation can raise anything; the other checks still run
            found, remark = "", f"the check itself failed ({type(error).__name__}: {' '.join(str(error).split())})"
        line = f"{name:<11} {found or 'not found'}"
        print(f"{line}: {remark}" if remark else line)


def _blas() -> Finding:
    import numpy

    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    threads = product_threads()
    return f"{blas['name']} {blas['version']}", f"{threads} thread{'s' if threads > 1 else ''} for a large product"


def _memory() -> Finding:
    if not hasattr(os, "sysconf"):
        return "", "this system does not report it; see its task manager"
    found = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / GIB:.1f} GiB"
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text(encoding="ascii").strip() if limit.is_file() else ""
    return f"{found}, limited to {int(allowed) / GIB:.1f} GiB for this process" if allowed.isdigit() else found, ""


def _cupy() -> Finding:
    from minitransformer.cuda_diagnosis import cuda_trouble

    trouble = cuda_trouble()  # imports CuPy, if it is installed
    if importlib.util.find_spec("cupy") is None:
        return "", f"{trouble}; training on the CPU does not need it"
    import cupy

    if trouble:
        return cupy.__version__, trouble
    count, device = cupy.cuda.runtime.getDeviceCount(), cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    name = f"{device['name'].decode()} (compute capability {device['major']}.{device['minor']})"
    name = f"{count} GPUs, the first {name}" if count > 1 else name
    remark = "" if importlib.util.find_spec("ml_dtypes") else f"bfloat16 needs ml_dtypes; {install_hint('cuda13')}"
    return f"{cupy.__version__}, {name}, {total / GIB:.1f} GiB, {free / GIB:.1f} GiB free", remark


def _driver() -> Finding:
    from minitransformer.cuda_diagnosis import driver_version

    version = driver_version()
    if version == 0:
        return "", "no NVIDIA driver; training on a GPU needs one, training on the CPU does not"
    return f"NVIDIA, for CUDA up to {version // 1000}.{version % 1000 // 10}", ""


def _mpi() -> Finding:
    if importlib.util.find_spec("mpi4py") is None:
        return "", f"the CPUs of several machines need it to train together; {install_hint('mpi')}"
    import mpi4py

    mpi4py.rc.initialize = False  # ask for the version without becoming an MPI process
    try:
        from mpi4py import MPI
    except (RuntimeError, ImportError):
        return f"mpi4py {mpi4py.__version__}", "there is no MPI library behind it; `pip install mpich` installs one"
    library = MPI.Get_library_version().strip("\0 \n").split("\n")[0]
    return f"mpi4py {mpi4py.__version__}, {library}", ""


def _nccl() -> Finding:
    found, remedy = _packages(
        ("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
        f"several GPUs need it; {install_hint('cuda13')} (cuda12 for cards before Turing)",
    )
    cupy = _packages(("cupy-cuda13x", "cupy-cuda12x"), "")[0]
    cuda = cupy[len("cupy-cuda") :][:2]
    wanted = f"nvidia-nccl-cu{cuda}"
    if found and cupy and not _packages((wanted,), "")[0]:
        package = found.split()[0]
        remedy = f"CuPy is for CUDA {cuda}; pip uninstall {package}, then {install_hint(f'cuda{cuda}')}"
    return found, remedy


def _packages(names: tuple[str, ...], remedy: str) -> Finding:
    """The first of these packages that is installed."""
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(name)}", ""
    return "", remedy


CHECKS: dict[str, Callable[[], Finding]] = {
    "Python": lambda: (f"{platform.python_version()} on {platform.system()} {platform.machine()}", ""),
    "NumPy": lambda: (importlib.metadata.version("numpy"), ""),
    "BLAS": _blas,
    "cores": lambda: (str(core_count()), ""),
    "memory": _memory,
    "CuPy": _cupy,
    "driver": _driver,
    "NCCL": _nccl,
    "MPI": _mpi,
    "sacreBLEU": lambda: _packages(("sacrebleu",), f"BLEU needs it; {install_hint('eval')}"),
    "matplotlib": lambda: _packages(("matplotlib",), f"plot needs it; {install_hint('plot')}"),
}
