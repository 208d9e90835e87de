"""``compiled``: a kernel as a function of (blocks, threads, arguments) on NumPy arrays; every argument is checked.

It stands in for ``minitransformer.kernels.cupy.launch.compiled``. What a GPU would take in silence is an error here: an
array of another type than the kernel's pointer, a number of the wrong kind, a write beside an array, a barrier at which
some threads never arrive.
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
from minitransformer.kernels.precision import computed_dtype

HEADER = Path(__file__).parent / "emulation.h"
COMPILER = shutil.which("g++")
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\(\d+\)\s+)?(\w+)\(([^)]*)\)')
GUARD = 64  # bytes around each array, of a pattern that is NaN in any floating-point type
POINTED_TO = {"long long": np.int64, "double": np.float64, "unsigned char": np.bool_}


@cache
def parameters_of(file: str) -> dict[str, list[str]]:
    """The C types of every kernel's parameters."""
    source = source_of(file)
    macro = re.search(r"#define DROPOUT_ARGUMENTS \\\n(.*)", source)[1].strip()
    found = {}
    for name, parameters in KERNEL.findall(source):
        words = parameters.replace("DROPOUT_ARGUMENTS", macro).split(",")
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
def compiled(file: str, kernel: str, dtype: str, names: tuple[tuple[str, int], ...]):
    library = library_of(file, dtype, names)
    types = parameters_of(file)[kernel]

    def once(blocks: tuple[int, ...], threads: tuple[int, ...], arguments: tuple, last_first: bool) -> list[list]:
        """Runs on copies; returns [array, the copy with its guards, whether it may be written] of each array."""
        guarded: dict[tuple[int, int], list] = {}
        values = [_value(kernel, kind, each, dtype, guarded) for kind, each in zip(types, arguments, strict=True)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = [*(*blocks, 1, 1)[:3], *(*threads, 1, 1)[:3]]
        launch = getattr(library, f"launch_{kernel}")
        launch.restype = ctypes.c_longlong
        stuck = launch(*map(ctypes.c_uint, map(int, sizes)), pointers, ctypes.c_int(last_first))
        assert stuck == 0, f"{kernel}: threads of block {stuck - 1} wait for each other for ever"
        return list(guarded.values())

    def run(blocks: tuple[int, ...], threads: tuple[int, ...], arguments: tuple) -> None:
        assert len(arguments) == len(types), f"{kernel}: {len(arguments)} arguments for {len(types)} parameters"
        assert 0 < np.prod(threads) <= 1024 and all(0 < n <= 65535 for n in blocks[1:]) and 0 < blocks[0] < 2**31
        results = once(blocks, threads, arguments, False)
        if np.prod(threads) > 32:
            for one, other in zip(results, once(blocks, threads, arguments, True), strict=True):
                assert (one[1] == other[1]).all(), f"{kernel}: the order of the warps changes the result"
        for array, padded, may_write in results:
            assert (padded[:GUARD] == 255).all() and (padded[-GUARD:] == 255).all(), f"{kernel}: writes beside an array"
            values = array.reshape(-1).view(np.uint8)
            if may_write:
                values[:] = padded[GUARD:-GUARD]
            else:
                assert (values == padded[GUARD:-GUARD]).all(), f"{kernel}: writes into a const array"

    return run


def _value(kernel: str, kind: str, value, dtype: str, guarded: dict):
    """One argument as C takes it; arrays are copied to where guards stand around them."""
    if not kind.endswith("*"):
        wanted = {"long long": np.int64, "double": np.float64}[kind]
        assert type(value) is wanted, f"{kernel}: {kind} wanted, got {type(value).__name__}"
        return ctypes.c_longlong(int(value)) if wanted is np.int64 else ctypes.c_double(float(value))
    if isinstance(value, np.int64):
        assert value == 0, f"{kernel}: a pointer wanted, got {value}"
        return ctypes.c_void_p(0)
    pointed = kind.removeprefix("const ").removesuffix("*").strip()
    if pointed != "Unit":
        wanted = {"T": np.dtype(dtype), "ACC": computed_dtype(dtype)}.get(pointed, POINTED_TO.get(pointed))
        assert value.dtype == wanted, f"{kernel}: {kind} of {np.dtype(wanted)} wanted, got {value.dtype}"
    if not value.flags.c_contiguous:  # read by strides
        return ctypes.c_void_p(value.ctypes.data)
    key = (value.ctypes.data, value.nbytes)
    if key not in guarded:
        for array, _, _ in guarded.values():
            assert not np.may_share_memory(array, value), f"{kernel}: two arrays overlap"
        guarded[key] = [value, _padded(value), False]
    guarded[key][2] |= not kind.startswith("const ")
    return ctypes.c_void_p(guarded[key][1].ctypes.data + GUARD)


def _padded(array: np.ndarray) -> np.ndarray:
    """The array's bytes between two guards; as well aligned as the array, and never better than 16 bytes."""
    raw = np.full(array.nbytes + 2 * GUARD + 32, 255, np.uint8)
    start = (array.ctypes.data - raw.ctypes.data) % 16
    padded = raw[start : start + array.nbytes + 2 * GUARD]
    padded[GUARD:-GUARD] = array.reshape(-1).view(np.uint8)
    return padded


assert set(STORED) == {"float32", "float64", "bfloat16", "float16"}
