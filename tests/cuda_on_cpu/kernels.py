"""A kernel as a function of (blocks, threads, arguments) on NumPy arrays; every argument is checked.

``compile_kernel`` stands in for that of ``minitransformer.kernels.cupy.launch``. What a GPU would take in silence is an
error here: an array of another type than the kernel's pointer, a number of the wrong kind, a write beside an array, a
barrier at which some threads never arrive.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from minitransformer.kernels.cupy.source import STORED, options_of, source_of
from minitransformer.kernels.precision import compute_dtype

HEADER = Path(__file__).parent / "emulation.h"
COMPILER = shutil.which("g++")
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^)]*)\)')
GUARD = 64  # bytes around each array, of a pattern that is NaN in any floating-point type
READ, WRITTEN = 1, 2
POINTED_TO = {"long long": np.int64, "double": np.float64, "unsigned char": np.bool_, "unsigned int": np.uint32}


@cache
def parameters_of(file: str) -> dict[str, list[str]]:
    """The C types of every kernel's parameters."""
    source = source_of(file)
    found = {}
    for name, parameters in KERNEL.findall(source):
        while macro := re.search(r"\w+_ARGUMENTS", parameters):
            meaning = re.search(rf"#define {macro[0]}\s+\\\n((?:.*\\\n)*.*)", source)[1].replace("\\", "")
            parameters = parameters.replace(macro[0], meaning)
        words = parameters.split(",")
        found[name] = [re.sub(r"\s*\w+$", "", " ".join(word.split())) for word in words]
    return found


@cache
def library_of(file: str, dtype: str, names: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    """The kernels of a file, compiled for this machine, each with a function that launches it."""
    text = [f'#include "{HEADER}"', source_of(file)]
    for kernel, types in parameters_of(file).items():
        arguments = ", ".join(f"*({kind} *)arguments[{i}]" for i, kind in enumerate(types))
        text += [
            f"static void **arguments_of_{kernel};",
            f"static void call_{kernel}() {{ void **arguments = arguments_of_{kernel}; {kernel}({arguments}); }}",
            f'extern "C" long long launch_{kernel}(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,',
            "    unsigned bz, void **arguments, int last_first) {",
            f"    arguments_of_{kernel} = arguments;",
            f"    return run_grid({{gx, gy, gz}}, {{bx, by, bz}}, call_{kernel}, last_first);",
            "}",
        ]
    return built("\n".join(text), options_of(dtype, names))


def built(source: str, options: tuple[str, ...]) -> ctypes.CDLL:
    """A library of C++."""
    folder = Path(tempfile.mkdtemp(prefix="cuda_on_cpu_"))
    (folder / "kernels.cpp").write_text(source)
    flags = ["-O1", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=fast"]
    command = [COMPILER, *flags, *options, str(folder / "kernels.cpp"), "-o", str(folder / "kernels.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "kernels.so"))
    shutil.rmtree(folder)
    return library


@cache
def compile_kernel(file: str, kernel: str, dtype: str, names: tuple[tuple[str, int], ...]):
    library = library_of(file, dtype, names)
    types = parameters_of(file)[kernel]

    def once(blocks: tuple[int, ...], threads: tuple[int, ...], arguments: tuple, last_first: bool) -> Memory:
        """Runs on copies, which it returns."""
        memory = Memory(kernel, [each for each in arguments if isinstance(each, np.ndarray)])
        values = [_value(kernel, kind, each, dtype, memory) for kind, each in zip(types, arguments, strict=True)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = [*(*blocks, 1, 1)[:3], *(*threads, 1, 1)[:3]]
        launch = getattr(library, f"launch_{kernel}")
        launch.restype = ctypes.c_longlong
        stuck = launch(*map(ctypes.c_uint, map(int, sizes)), pointers, ctypes.c_int(last_first))
        assert stuck == 0, f"{kernel}: threads of block {stuck - 1} wait for each other for ever"
        return memory

    def run(blocks: tuple[int, ...], threads: tuple[int, ...], arguments: tuple) -> None:
        assert len(arguments) == len(types), f"{kernel}: {len(arguments)} arguments for {len(types)} parameters"
        assert 0 < np.prod(threads) <= 1024 and all(0 < n <= 65535 for n in blocks[1:]) and 0 < blocks[0] < 2**31
        memory = once(blocks, threads, arguments, False)
        if np.prod(threads) > 32:
            assert memory.equals(once(blocks, threads, arguments, True)), (
                f"{kernel}: the order of the warps changes the result"
            )
        memory.check()
        memory.copy_back()

    return run


class Memory:
    """Copies of the memory of all arrays, each with a guard before and behind; arrays that interleave share one.

    Bytes between the elements of an array that is not contiguous are guards too.
    """

    def __init__(self, kernel: str, arrays: list[np.ndarray]):
        self.kernel, self.regions = kernel, []  # [start, stop, copy, what is done with each byte], in order
        for start, stop in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays):
            if self.regions and start < self.regions[-1][1]:
                self.regions[-1][1] = max(stop, self.regions[-1][1])
            else:
                self.regions.append([start, stop])
        for region in self.regions:
            start, stop = region
            raw = np.full(stop - start + 2 * GUARD + 32, 255, np.uint8)
            skip = (start - raw.ctypes.data) % 16  # as well aligned as the array, and never better than 16 bytes
            padded = raw[skip : skip + stop - start + 2 * GUARD]
            padded[GUARD:-GUARD] = _bytes_at(start, stop)
            region += [padded, np.zeros(stop - start, np.int8)]
        self.known: set[tuple] = set()

    def pointer(self, array: np.ndarray, may_write: bool) -> ctypes.c_void_p:
        """Where the kernel finds the array."""
        key, address = (array.ctypes.data, array.shape, array.strides), np.lib.array_utils.byte_bounds(array)[0]
        start, _, padded, marks = next(region for region in reversed(self.regions) if region[0] <= address)
        offset = array.ctypes.data - start
        elements = _bytes_of(marks, offset, array)
        others = elements > (READ if not may_write else 0)
        assert key in self.known or not others.any(), f"{self.kernel}: two arrays overlap"
        self.known.add(key)
        elements[...] = np.maximum(elements, WRITTEN if may_write else READ)
        return ctypes.c_void_p(padded.ctypes.data + GUARD + offset)

    def equals(self, other: "Memory") -> bool:
        return all((a[2] == b[2]).all() for a, b in zip(self.regions, other.regions, strict=True))

    def check(self) -> None:
        for start, stop, padded, marks in self.regions:
            is_whole = (padded[:GUARD] == 255).all() and (padded[-GUARD:] == 255).all()
            assert is_whole, f"{self.kernel}: writes beside an array"
            same = padded[GUARD:-GUARD] == _bytes_at(start, stop)
            assert same[marks != WRITTEN].all(), f"{self.kernel}: writes beside an array, or into a const one"

    def copy_back(self) -> None:
        for start, stop, padded, _ in self.regions:
            _bytes_at(start, stop)[...] = padded[GUARD:-GUARD]


def _bytes_at(start: int, stop: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_ubyte * (stop - start)).from_address(start), np.uint8)


def _bytes_of(memory: np.ndarray, offset: int, array: np.ndarray) -> np.ndarray:
    """The bytes of the array's elements, as a view of ``memory``, in which the array's first is at ``offset``."""
    as_strided = np.lib.stride_tricks.as_strided
    return as_strided(memory[offset:], (*array.shape, array.itemsize), (*array.strides, 1))


def _value(kernel: str, kind: str, value, dtype: str, memory: Memory):
    """One argument as C takes it."""
    if not kind.endswith("*"):
        wanted = {"long long": np.int64, "double": np.float64}[kind]
        assert type(value) is wanted, f"{kernel}: {kind} wanted, got {type(value).__name__}"
        return ctypes.c_longlong(int(value)) if wanted is np.int64 else ctypes.c_double(float(value))
    if isinstance(value, np.int64):
        assert value == 0, f"{kernel}: a pointer wanted, got {value}"
        return ctypes.c_void_p(0)
    pointed = kind.removeprefix("const ").removesuffix("*").strip()
    wanted = {"T": np.dtype(dtype), "ACC": compute_dtype(dtype)}.get(pointed, POINTED_TO.get(pointed))
    assert value.dtype == wanted, f"{kernel}: {kind} of {np.dtype(wanted)} wanted, got {value.dtype}"
    return memory.pointer(value, not kind.startswith("const "))


assert set(STORED) == {"float32", "float64", "bfloat16", "float16"}
