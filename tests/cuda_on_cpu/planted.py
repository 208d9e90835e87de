"""The CUDA sources with a fault planted in every place where one could be, each asleep until its number is chosen.

A place is a barrier, a comparison, an index or an offset into memory, or a write to shared memory. All faults of a file
are in one source, so that it is compiled once.
"""

import ctypes
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from cuda_on_cpu import kernels
from cuda_on_cpu.kernels import SHARED
from minitransformer.kernels.cupy.source import options_of, source_of

PRELUDE = """extern "C" { int planted_fault = -1; bool planted_met[4096]; }
UNCHECKED static int planted(int n) { return planted_met[n] = true, n == planted_fault; }
"""
FUNCTION = re.compile(r"__(?:device|global)__[^;{(]*?(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(")
POINTER = re.compile(r"\b(?:T|S|ACC|double|char|long long) (?:\*|\(\*)(\w+)")
REGISTERS = {"out", "values", "sum"}  # pointers to what is not in memory
NO_CODE = re.compile(r"\s*(#|template|(static )?constexpr)|.*(__shared__|multiply_eight|asm|\"r\")")


class Fault(NamedTuple):
    kind: str
    function: str
    line: str  # of the source

    def __str__(self) -> str:
        return f"{self.kind} in {self.function}: {self.line}"


def with_faults(file: str) -> tuple[str, list[Fault]]:
    """The source of a file with its faults, and what each is: fault n happens where ``planted_fault`` is n."""
    source = re.sub(r" *//.*", "", source_of(file))
    functions = [(match.start(), match[1]) for match in FUNCTION.finditer(source)]
    faults, parts, end = [], [PRELUDE], 0
    for start, stop, text, kinds in sorted(_places(source)):
        line = source[source.rfind("\n", 0, start) + 1 : source.index("\n", start)]
        if NO_CODE.match(line):
            continue
        function = max((position, name) for position, name in functions if position < start)[1]
        numbers = [f"planted({len(faults) + i})" for i in range(len(kinds))]
        faults += [Fault(kind, function, line.strip()) for kind in kinds]
        parts += [source[end:start], text.format(*numbers)]
        end = stop
    return "".join([*parts, source[end:]]), faults


def _places(source: str) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    """(start, stop, what is written there, the kinds of its faults)"""
    arrays = {name for _, _, names in SHARED.findall(source) for name in re.findall(r"(\w+)\[", names)}
    shared = "|".join(sorted(arrays))
    memory = "|".join(sorted((arrays | set(POINTER.findall(source))) - REGISTERS))
    barriers = "no barrier", "a barrier that thread 0 passes by"
    for match in re.finditer(r"__syncthreads\(\);", source):
        yield match.start(), match.start(), "if (!{} && !({} && threadIdx.x == 0)) ", barriers
    for match in re.finditer(r"__syncthreads_or\((\w+)\)", source):
        yield *match.span(), f"({{}} || ({{}} && threadIdx.x == 0) ? {match[1]} : {match[0]})", barriers
    for match in re.finditer(
        r" (?:<|<=|>=) (?!(?:8|10|N|GROUPS|LARGE|dropout.threshold)\b)(?=\S)|(?<== 1; j) < ", source
    ):
        yield match.end(), match.end(), "{} - {} + ", ("bound + 1", "bound - 1")
    indices = rf"\b(?:{memory})(?:\[| \+ )|\b(?:{shared})\[[^][]*\]\["
    for match in re.finditer(rf"(?=({indices}))\b\w", source):
        position = match.start() + len(match[1])
        yield position, position, "{} - {} + ", ("index + 1", "index - 1")
    written = rf"\w+<\w+>\((?:{shared}),|\w+\.write\((?:{shared}),|put\((?:{shared}) \+"
    written += rf"|(?:\w+\S*\[\w\] = )?\b(?!values)(?:{shared})(?:\[[^]]*\])+ \+?= "
    for match in re.finditer(rf"(?<=[ {{])(?:{written})", source):
        yield match.start(), match.start(), "if (!{}) ", ("no write",)


class Planted:
    """The kernels of a file with all faults planted, in the place of those without.

    awake: the kernel that has a fault, and its number   met: (kernel, number) of the places that launches came by
    """

    def __init__(self, file: str):
        self.file, self.awake, self.met = file, ("", -1), set()
        self.source, self.faults = with_faults(file)
        self.library = cache(lambda dtype, names: kernels.built(self.source, options_of(dtype, names)))

    def compile_kernel(self, file: str, kernel: str, dtype: str, names: tuple):
        if file != self.file:
            return kernels.compile_kernel(file, kernel, dtype, names)
        library, types = self.library(dtype, names), kernels.parameters_in(self.source)[kernel]
        number = ctypes.c_int.in_dll(library, "planted_fault")
        met = (ctypes.c_bool * len(self.faults)).in_dll(library, "planted_met")

        def run(*launch):
            number.value = self.awake[1] if kernel == self.awake[0] else -1
            ctypes.memset(met, 0, len(self.faults))
            kernels.launcher(library, kernel, types, dtype)(*launch)
            self.met |= {(kernel, int(i)) for i in np.flatnonzero(met)}

        return run
