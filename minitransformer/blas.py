"""The number of cores, and the threads of NumPy's BLAS.

OpenBLAS threads spin while they wait for the next product. On matrices as small as ours that gains little, and on a
machine that does other work it costs a lot: training took 2 to 30 times as long with two of them (docs/cpu.md). So BLAS
gets one thread, and large products are split among our own threads (`workers.parallel_for`), which sleep when idle.
"""

import os
from functools import cache


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def product_threads() -> int:
    """The maximum number of threads that share one large product: as many as BLAS had at the first call, at most one
    per core. From then on BLAS has one thread, in the whole process. A BLAS that threadpoolctl does not know keeps its
    own threads, and the result is 1.

    To get fewer, set OPENBLAS_NUM_THREADS, MKL_NUM_THREADS or OMP_NUM_THREADS before NumPy is imported.
    """
    had = max((library.num_threads for library in _libraries()), default=1)
    for library in _libraries():
        library.set_num_threads(1)
    return min(had, core_count())


@cache
def blas_kernels() -> str:
    """OpenBLAS's name for the processor whose kernels it uses, such as ``SkylakeX``; empty for another BLAS."""
    return next((library.info().get("architecture") or "" for library in _libraries()), "")


@cache
def _libraries() -> list:
    """threadpoolctl's controllers of the BLAS that NumPy has loaded."""
    import numpy  # noqa: F401  (loads its BLAS)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
