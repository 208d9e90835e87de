"""The CUDA sources as text, and the names that each compilation gives them. Needs no CuPy and no GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
SHARED = ("common.cuh", "philox.cuh")
STORED = {
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "bfloat16": ("bf16", "float"),
    "float16": ("fp16", "float"),
}
"""For the dtype of activations: the type that they are stored in, and the type that is computed in."""


@cache
def source_of(name: str) -> str:
    """What is compiled for ``name.cu``: the shared files in front of it."""
    return "\n".join((FOLDER / file).read_text(encoding="utf-8") for file in (*SHARED, f"{name}.cu"))


def options_of(dtype: str, constants: tuple[tuple[str, int], ...] = ()) -> tuple[str, ...]:
    """The compiler's options for activations of ``dtype`` and the constants that a file leaves open."""
    stored, computed = STORED[dtype]
    return (
        "-std=c++17",
        f"-DSTORED={stored}",
        f"-DCOMPUTED={computed}",
        *(f"-D{name}={value}" for name, value in constants),
    )
