"""A kernel as a function of (blocks, threads, arguments) on NumPy arrays; every argument is checked.

``compile_kernel`` stands in for that of ``minitransformer.kernels.cupy.launch``. What a GPU would take in silence is an
error here: an array of another type than the kernel's pointer, a number of the wrong kind, and what emulation.cpp looks
for: accesses beside the arrays, races, reads of what nobody has written, barriers where some threads never arrive.
"""

import ctypes
import math
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from minitransformer.kernels.cupy.source import STORED, options_of, source_of
from minitransformer.kernels.precision import compute_dtype

FOLDER = Path(__file__).parent
COMPILER = shutil.which("g++")
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^)]*)\)')
SHARED = re.compile(r"(alignas\(16\) )?__shared__ (\w+) ([^;]+);")
GAP = 1 << 17  # bytes around each array, further than an index that is wrong by a row reaches
LARGE = 1 << 26  # bytes of an array that is not copied
READ, WRITTEN = 1, 2
POINTED_TO = {"long long": np.int64, "double": np.float64, "unsigned char": np.bool_, "unsigned int": np.uint32}


@cache
def compile_kernel(file: str, kernel: str, dtype: str, names: tuple[tuple[str, int], ...]):
    return launcher(library_of(file, dtype, names), kernel, parameters_in(source_of(file))[kernel], dtype)


@cache
def library_of(file: str, dtype: str, names: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    return built(source_of(file), options_of(dtype, names))


@cache
def parameters_in(source: str) -> dict[str, dict[str, str]]:
    """The names and C types of every kernel's parameters."""
    found = {}
    for kernel, parameters in KERNEL.findall(source):
        while macro := re.search(r"\w+_ARGUMENTS", parameters):
            meaning = re.search(rf"#define {macro[0]}\s+\\\n((?:.*\\\n)*.*)", source)[1].replace("\\", "")
            parameters = parameters.replace(macro[0], meaning)
        words = [re.fullmatch(r"(.*?)\s*(\w+)", " ".join(word.split())) for word in parameters.split(",")]
        found[kernel] = {name: kind for kind, name in (word.groups() for word in words)}
    return found


def built(source: str, options: tuple[str, ...]) -> ctypes.CDLL:
    """The kernels of a source, compiled for this machine, each with a function that calls it with ``arguments``."""
    text = [f'#include "{FOLDER / "emulation.h"}"', SHARED.sub(_shared, source)]
    for kernel, types in parameters_in(source).items():
        values = ", ".join(f"*({kind} *)arguments[{i}]" for i, kind in enumerate(types.values()))
        text.append(f'extern "C" UNCHECKED void call_{kernel}() {{ {kernel}({values}); }}')
    with tempfile.TemporaryDirectory(prefix="cuda_on_cpu_") as folder:
        # Loads stay where they are written: one that is moved before a condition would be reported.
        flags = "-O1 -fno-tree-loop-im -fsanitize=thread,alignment,bounds -fno-strict-aliasing -ffp-contract=fast"
        _compile("\n".join(text), f"{folder}/kernels.o", *flags.split(), *options)
        _run("-shared", f"{folder}/kernels.o", _emulation(), "-o", f"{folder}/kernels.so")
        return ctypes.CDLL(f"{folder}/kernels.so")


def _shared(declaration: re.Match) -> str:
    alignment, kind, names = declaration.groups()
    return " ".join(
        f'{alignment or ""}static Shared<{kind}{extents}> at_{name}; auto &{name} = shared(at_{name}, "{name}");'
        for name, extents in re.findall(r"(\w+)((?:\[[^]]*\])+)", names)
    )


@cache
def _emulation() -> str:
    path = f"{_folder().name}/emulation.o"
    _compile((FOLDER / "emulation.cpp").read_text(), path, "-O2", "-U_FORTIFY_SOURCE")
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="cuda_on_cpu_")


def _compile(source: str, to: str, *options: str) -> None:
    _run("-c", "-fPIC", "-w", "-std=c++17", *options, "-x", "c++", "-", "-o", to, text=source)


def _run(*options: str, text: str = "") -> None:
    done = subprocess.run([COMPILER, *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def launcher(library: ctypes.CDLL, kernel: str, types: dict[str, str], dtype: str):
    """A kernel of a library as a function."""
    library.run_blocks.restype = ctypes.c_char_p

    def run(blocks: tuple[int, ...], threads: tuple[int, ...], arguments: tuple, only: range | None = None) -> None:
        """only: numbers of the blocks that run, instead of all"""
        assert len(arguments) == len(types), f"{kernel}: {len(arguments)} arguments for {len(types)} parameters"
        assert 0 < np.prod(threads) <= 1024 and all(0 < n <= 65535 for n in blocks[1:]) and 0 < blocks[0] < 2**31
        regions = regions_of(dict(zip(types, arguments, strict=True)))
        values = [_value(*each, dtype, regions) for each in zip(types.values(), arguments, strict=True)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        only = range(math.prod(blocks)) if only is None else only
        sizes = [(ctypes.c_uint * 3)(*(*numbers, 1, 1)[:3]) for numbers in (blocks, threads)]
        ranges = (Range * len(regions))(*(region.range() for region in regions))
        counts = [ctypes.c_ulong(n) for n in (only.start, len(only), len(ranges))]
        fault = library.run_blocks(*sizes, *counts, library[f"call_{kernel}"], pointers, ranges)
        assert fault is None, f"{kernel}: {fault.decode()}"
        for region in regions:
            region.copy_back()

    return run


class Range(ctypes.Structure):
    """Memory that a kernel may touch: as in emulation.cpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("start", "uses", "cells")),
        *((name, ctypes.c_ulong) for name in ("bytes", "of_one", "use", "is_shared")),
        ("name", ctypes.c_char_p),
    ]


class Region:
    """The memory of one array, or of several that interleave: a copy far from all others.

    What lies between the elements of arrays that are not contiguous is as forbidden as what lies beside them.
    start, stop: addresses of the memory itself   uses: READ, WRITTEN or 0 for each byte
    """

    def __init__(self, start: int, stop: int, names: list[str], of_one: int):
        self.start, self.stop, self.names, self.of_one = start, stop, names, of_one
        self.memory, self.known, self.use = _bytes_at(start, stop), set(), READ
        if stop - start >= LARGE:
            self.copy, self.uses = self.memory, None
        else:
            raw = np.empty(stop - start + 2 * GAP + 16, np.uint8)
            skip = GAP + (start - raw.ctypes.data) % 16  # as well aligned as the array
            self.copy, self.uses = raw[skip : skip + stop - start], np.zeros(stop - start, np.uint8)
            self.copy[...] = self.memory

    def pointer(self, array: np.ndarray, use: int) -> ctypes.c_void_p:
        """Where the kernel finds the array."""
        offset, key = array.ctypes.data - self.start, (array.ctypes.data, array.shape, array.strides)
        if self.uses is not None:
            as_strided = np.lib.stride_tricks.as_strided
            elements = as_strided(self.uses[offset:], (*array.shape, array.itemsize), (*array.strides, 1))
            others = elements > (READ if use == READ else 0)
            assert key in self.known or not others.any(), f"two arrays overlap: {' and '.join(self.names)}"
            elements[...] = np.maximum(elements, use)
        self.use = max(self.use, use)
        self.known.add(key)
        return ctypes.c_void_p(self.copy.ctypes.data + offset)

    def range(self) -> Range:
        uses = None if self.uses is None else self.uses.ctypes.data
        sizes = {"bytes": self.copy.size, "of_one": self.of_one, "use": self.use}
        return Range(name="+".join(self.names).encode(), start=self.copy.ctypes.data, uses=uses, **sizes)

    def copy_back(self) -> None:
        if self.uses is not None:
            self.memory[...] = self.copy


def regions_of(arguments: dict) -> list[Region]:
    """The memory of all arrays among the arguments, in the order of addresses."""
    arrays = {name: array for name, array in arguments.items() if isinstance(array, np.ndarray)}
    found = []  # [start, stop, names, bytes of an element]
    for name, array in sorted(arrays.items(), key=lambda each: np.lib.array_utils.byte_bounds(each[1])):
        start, stop = np.lib.array_utils.byte_bounds(array)
        if found and start < found[-1][1]:
            found[-1][1] = max(stop, found[-1][1])
            found[-1][2].append(name)
        else:
            found.append([start, stop, [name], array.itemsize])
    return [Region(*each) for each in found]


def _bytes_at(start: int, stop: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_ubyte * (stop - start)).from_address(start), np.uint8)


def _value(kind: str, value, dtype: str, regions: list[Region]):
    """One argument as C takes it."""
    if not kind.endswith("*"):
        wanted = {"long long": np.int64, "double": np.float64}[kind]
        assert type(value) is wanted, f"{kind} wanted, got {type(value).__name__}"
        return ctypes.c_longlong(int(value)) if wanted is np.int64 else ctypes.c_double(float(value))
    if isinstance(value, np.int64):
        assert value == 0, f"a pointer wanted, got {value}"
        return ctypes.c_void_p(0)
    pointed = kind.removeprefix("const ").removesuffix("*").strip()
    wanted = {"T": np.dtype(dtype), "ACC": compute_dtype(dtype)}.get(pointed, POINTED_TO.get(pointed))
    assert value.dtype == wanted, f"{kind} of {np.dtype(wanted)} wanted, got {value.dtype}"
    address = np.lib.array_utils.byte_bounds(value)[0]
    region = next(region for region in reversed(regions) if region.start <= address)
    return region.pointer(value, READ if kind.startswith("const ") else WRITTEN)


assert set(STORED) == {"float32", "float64", "bfloat16", "float16"}
