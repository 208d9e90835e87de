"""Every CUDA source compiles for every GPU that counts, by NVIDIA's compiler and without a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuda_on_cpu.kernels import parameters_of

import minitransformer
from minitransformer.kernels.cupy.source import FOLDER, STORED, options_of, source_of

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
FILES = sorted(path.stem for path in FOLDER.glob("*.cu"))
ARCHITECTURES = (75, 80, 90)  # Turing, Ampere, Hopper
NAMES = {"norm": [(("GROUPS", 1),), (("GROUPS", 3),)], "heads": [(("UNIT", unit),) for unit in (2, 4, 8, 16)]}
TYPES = {"adam": ("float32", "float64")}  # parameters are never stored in halves


@pytest.fixture(scope="module")
def compiler():
    """CuPy's door to NVRTC."""
    pytest.importorskip("cupy", reason="CuPy is not installed: pip install minitransformer[dev]")
    from cupy.cuda import compiler

    try:
        compiler._get_nvrtc_version()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"NVRTC is not installed ({' '.join(str(error).split())[:80]}): pip install minitransformer[dev]")
    return compiler


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_the_source_compiles_to_machine_code(file, architecture, compiler):
    for dtype in TYPES.get(file, STORED):
        for names in NAMES.get(file, [()]):
            options = (*options_of(dtype, names), f"-arch=sm_{architecture}", "--device-as-default-execution-space")
            program = compiler._NVRTCProgram(source_of(file), f"{file}.cu", (), (), method="cubin")
            code, _ = program.compile(options, None)
            assert len(code) > 1000


def test_a_source_with_a_fault_does_not_compile(compiler):
    broken = source_of("cast").replace("load8(values", "load9(values")
    program = compiler._NVRTCProgram(broken, "cast.cu", (), (), method="cubin")
    with pytest.raises(compiler.CompileException):
        program.compile((*options_of("float32"), "-arch=sm_90"), None)


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


def test_every_number_a_kernel_takes_has_64_bits():
    for file in FILES:
        for kernel, types in parameters_of(file).items():
            assert {kind for kind in types if not kind.endswith("*")} <= {"long long", "double"}, kernel


def test_the_sources_are_part_of_the_package():
    setup = Path(minitransformer.__file__).parent.parent / "setup.cfg"
    listed = setup.read_text(encoding="utf-8").split("[options.package_data]")[1].split("[")[0]
    assert "kernels/cupy/*.cu\n" in listed and "kernels/cupy/*.cuh\n" in listed


def test_cuda_longer_than_ten_lines_stands_in_a_file_of_its_own():
    for path in FOLDER.glob("*.py"):
        assert "__global__" not in path.read_text(encoding="utf-8"), path
