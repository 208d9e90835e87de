"""The CUDA sources as text, and the macros that each compilation defines. Needs no CuPy and no GPU."""

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
SHARED = ("common.cuh", "philox.cuh")
TILED = {"attention": ("tensor_cores.cuh", "tiles.cuh")}  # which computes products itself, without cuBLAS
STORED = {
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "bfloat16": ("bf16", "float"),
    "float16": ("fp16", "float"),
}
"""For each dtype of activations: the type they are stored in, and the type used to compute."""


@cache
def source_of(name: str) -> str:
    """What is compiled for ``name.cu``: the shared files, then that one."""
    files = (*SHARED, *TILED.get(name, ()), f"{name}.cu")
    return "\n".join((FOLDER / file).read_text(encoding="utf-8") for file in files)


def options_of(dtype: str, constants: tuple[tuple[str, int], ...] = ()) -> tuple[str, ...]:
    """The compiler's options for activations of ``dtype`` and a file's compile-time constants."""
    storage, computed = STORED[dtype]
    macros = {"STORED": storage, "COMPUTED": computed, **dict(constants)}
    return "-std=c++17", *(f"-D{name}={value}" for name, value in macros.items())
