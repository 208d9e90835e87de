"""``stand_in()``: a library with the functions of libcublasLt, compiled for this machine (cublas_lt.cpp)."""

import ctypes
from functools import cache
from pathlib import Path

from cuda_on_cpu.kernels import built
from minitransformer.kernels.cupy.source import FOLDER, options_of

HERE = Path(__file__).parent
SEEN = ("last_stream", "last_compute", "heuristics", "products", "alive")
SEEN += ("refuse_handles", "refuse_heuristics", "refuse_products")


@cache
def stand_in() -> ctypes.CDLL:
    """Called through ctypes like the real one: its C code has the same argument types and sizes."""
    files = (HERE / "emulation.h", FOLDER / "common.cuh", HERE / "cublas_lt.cpp")
    return built("\n".join(file.read_text(encoding="utf-8") for file in files), options_of("float32"))


def watched(name: str) -> ctypes.c_longlong:
    """One of SEEN; may be set."""
    assert name in SEEN
    return ctypes.c_longlong.in_dll(stand_in(), name)
