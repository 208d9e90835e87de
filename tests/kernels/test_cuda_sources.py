"""Every CUDA source compiles for every supported GPU, with NVIDIA's compiler and without a GPU."""

import re

import numpy as np
import pytest
from cuda_on_cpu.kernels import parameters_in
from extras import need

from minitransformer.kernels.cupy.attention import tile_of
from minitransformer.kernels.cupy.launch import THREADS
from minitransformer.kernels.cupy.source import FOLDER, STORED, options_of, source_of

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
FILES = sorted(path.stem for path in FOLDER.glob("*.cu"))
ARCHITECTURES = (75, 80, 90)  # Turing, Ampere, Hopper
HEADS = {"float64": [16], "float32": [64, 128], "float16": [64], "bfloat16": [64, 128]}  # d_k and d_v
MAX_THREADS = {"norm_forward": 512, "norm_backward": 512, "sum_rows": 1024, "cross_entropy": 512}
CUPY_ADDS = ("-ftz=true", "--device-as-default-execution-space")
USED = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.S)


def names_of(file: str, dtype: str) -> list[tuple]:
    """The constants that a file is compiled with: what the launches of different sizes take."""
    if file == "norm":
        return [(("GROUPS", 1),), (("GROUPS", 4),)]
    if file == "attention":
        tiles = [(("TILE", tile_of(np.dtype(dtype), d, d)), ("D_K", d), ("D_V", d)) for d in HEADS[dtype]]
        return [(*names, ("ONE_TILE", one_tile)) for names in tiles for one_tile in (0, 1)]
    return [()]


@pytest.fixture(scope="module")
def nvrtc():
    """CuPy's door to NVIDIA's compiler."""
    need("cupy")
    from cupy_backends.cuda.libs import nvrtc

    try:
        nvrtc.getVersion()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f'NVRTC is not installed ({" ".join(str(error).split())[:80]}): pip install -e ".[dev]"')
    return nvrtc


def compiled(nvrtc, source: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Machine code, and what the compiler says about it."""
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*options, *CUPY_ADDS, "--ptxas-options=-v"))
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_the_source_compiles_and_a_block_has_enough_registers(file, architecture, nvrtc):
    """A block whose threads want more than 65,536 registers in all does not start; none is spilled to memory, but for
    norms of more than 4,096 columns, float64, which is for checks, and attention in bfloat16 on Turing,
    which has no products of that type: there CUDA 13.0's compiler spills 28 bytes, 13.5's none."""
    for dtype in STORED:
        for names in names_of(file, dtype):
            options = (*options_of(dtype, names), f"-arch=sm_{architecture}")
            code, log = compiled(nvrtc, source_of(file), options)
            used = USED.findall(log)
            may_spill = ("GROUPS", 4) in names or dtype == "float64"
            may_spill |= (file, dtype, architecture) == ("attention", "bfloat16", 75)
            assert len(code) > 1000 and {kernel for kernel, *_ in used} == set(parameters_in(source_of(file)))
            for kernel, spilled, registers in used:
                assert spilled == "0" or may_spill, (kernel, dtype, names)
                registers = -(-int(registers) // 8) * 8  # given out by eights
                assert registers * MAX_THREADS.get(kernel, THREADS) <= 65536, (kernel, dtype, names, registers)


def test_bfloat16_is_rounded_by_one_instruction_where_the_card_has_it(nvrtc):
    for architecture, has_it in ((75, False), (80, True), (90, True)):
        program = nvrtc.createProgram(source_of("cast"), "kernels.cu", (), ())
        nvrtc.compileProgram(program, (*options_of("bfloat16"), f"-arch=compute_{architecture}"))
        ptx = nvrtc.getPTX(program)
        assert (b"cvt.rn.bf16" in (ptx if isinstance(ptx, bytes) else ptx.encode())) == has_it


def test_no_source_adds_by_atomics():
    """What threads add in the order in which they come has other bits each time."""
    for path in sorted(FOLDER.glob("*.cu*")):
        code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        assert "atomic" not in code, path


def test_every_source_says_what_it_computes_and_how_threads_share_it():
    for path in sorted(FOLDER.glob("*.cu")):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("//") and "Threads:" in text, path
        assert max(map(len, text.split("\n"))) <= 120, path


def test_every_scalar_argument_of_a_kernel_has_64_bits():
    for file in FILES:
        for kernel, types in parameters_in(source_of(file)).items():
            assert {kind for kind in types.values() if not kind.endswith("*")} <= {"long long", "double"}, kernel
