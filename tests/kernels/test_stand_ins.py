"""Stand-ins for CuPy, NCCL and cuBLAS have no name, parameter or type that the real library lacks; nor has our code.

The libraries are installed without a GPU. Each comparison is made in a process of its own, where no other import has
added to their modules.
"""

import json
from pathlib import Path

import pytest
from extras import need
from systems import in_new_process

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
TESTS = Path(__file__).parents[1]
TOOLS = '''
import ast, inspect, json, re, sys, types
from pathlib import Path

def parameters(function):
    """Their names; None if the function does not tell."""
    try:
        found = list(inspect.signature(function).parameters)
        return None if "args" in found else found
    except (ValueError, TypeError):
        told = re.match(r"[\\w.]+\\(([^)]*)\\)", function.__doc__ or "")
        if not told or "..." in told[1]:
            return None
        found = [each.split("=")[0].split()[-1] for each in told[1].split(",") if each.strip()]
        return [name for name in found if name != "self"]

def invented(stand_in, real, path):
    """What a stand-in has that the real thing lacks."""
    found = []
    names = set(vars(stand_in)) | (set() if isinstance(stand_in, types.SimpleNamespace) else set(vars(type(stand_in))))
    for name in sorted(name for name in names if not name.startswith("_")):
        ours, where = getattr(stand_in, name), f"{path}.{name}"
        if name in OWN.get(path, ()):
            continue
        if not hasattr(real, name):
            found.append(where)
            continue
        theirs = getattr(real, name)
        if isinstance(ours, types.SimpleNamespace):
            found += invented(ours, theirs, where)
        elif isinstance(ours, int | str | bytes):
            is_other = ours != theirs if name.isupper() else type(ours) is not type(theirs)
            if isinstance(theirs, int | str | bytes) and is_other:
                found.append(f"{where} is {ours!r}, not {theirs!r}")
        elif isinstance(ours, types.FunctionType | types.MethodType) and (known := parameters(theirs)) is not None:
            if parameters(ours) != known[: len(parameters(ours))]:
                found.append(f"{where}{parameters(ours)}, not {known}")
    return found
'''


def found_by(program: str):
    """What it prints as JSON."""
    return json.loads(in_new_process(f"{TOOLS}\n{program}"))


NCCL = """
import cupy, numpy
from recorded_cuda import Collectives, Cuda, DeviceArray, Stream, World
OWN = {"cupy": {"world", "rank", "current", "nccl", "host_at"}, "cupy.ndarray": {"host", "data"}}
cuda = Cuda(World(1), 0)
if PLANT == "import":
    cuda.cuda.nccl = cuda.nccl
found, array = invented(cuda, cupy, "cupy"), cuda.asarray(numpy.ones(3))
found += invented(array, cupy.ndarray, "cupy.ndarray")
found += invented(array.data, cupy.cuda.memory.MemoryPointer, "cupy.ndarray.data")
found += invented(Stream(cuda), cupy.cuda.Stream(null=True), "cupy.cuda.Stream")
from cupy.cuda import nccl
if PLANT == "name":
    cuda.nccl.get_error_string = lambda code: ""
if PLANT == "value":
    cuda.nccl.NCCL_INT64 = 5
if PLANT == "parameter":
    Collectives.allReduce = lambda self, sendbuf, count, recvbuf, datatype, op, stream: None
found += invented(cuda.nccl, nccl, "nccl")
communicator = cuda.nccl.NcclCommunicator(1, cuda.nccl.get_unique_id(), 0)
found += invented(communicator, nccl.NcclCommunicator, "NcclCommunicator")
assert type(cuda.nccl.get_unique_id()) is type(nccl.get_unique_id()) is bytes
assert len(cuda.nccl.get_unique_id()) == len(nccl.get_unique_id())
assert cuda.nccl.NcclError.__mro__[1:] == nccl.NcclError.__mro__[1:]
for code in range(1, 7):
    assert str(cuda.nccl.NcclError(code)).partition(":")[0] == str(nccl.NcclError(code)).partition(":")[0]
print(json.dumps(found))
"""


def test_nccl_and_its_cupy_have_nothing_of_their_own():
    need("cupy", "nvidia.nccl")
    assert found_by(f"PLANT = None\n{NCCL}") == []


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("import", "cupy.cuda.nccl"),
        ("name", "nccl.get_error_string"),
        ("value", "nccl.NCCL_INT64 is 5, not 4"),
        ("parameter", "NcclCommunicator.allReduce['sendbuf', 'count', 'recvbuf', 'datatype', 'op', 'stream'], not"),
    ],
)
def test_what_is_invented_is_found(fault, seen):
    need("cupy", "nvidia.nccl")
    (found,) = found_by(f"PLANT = {fault!r}\n{NCCL}")
    assert found.startswith(seen)


CARD = """
import cupy
from test_backend import Card
OWN = {}
card = Card()
found = invented(card, cupy, "cupy") + invented(card.cuda.Device(), cupy.cuda.Device, "cupy.cuda.Device")
from cuda import pathfinder
assert callable(pathfinder.load_nvidia_dynamic_lib)
assert issubclass(pathfinder.DynamicLibNotFoundError, RuntimeError)
print(json.dumps(found))
"""


def test_the_card_of_the_diagnosis_has_nothing_of_its_own():
    need("cupy")
    assert found_by(CARD) == []


CUBLAS = """
import cupy
from cupy_backends.cuda.api import runtime
from minitransformer.kernels.cupy.gemm import DATA_TYPES
kinds = {"float32": "CUDA_R_32F", "float64": "CUDA_R_64F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}
wrong = {name: getattr(runtime, kind) for name, kind in kinds.items() if getattr(runtime, kind) != DATA_TYPES[name]}
from cupy.cuda import device
print(json.dumps([wrong, parameters(device.get_cublas_handle)]))
"""


def test_types_of_matrices_and_the_handle_are_those_of_cublas():
    """The names and the order of GemmEx's arguments: test_cuda_emulation.py."""
    need("cupy")
    assert found_by(CUBLAS) == [{}, []]


LAUNCH = """
import cupy
from minitransformer.kernels.cupy import launch
module = launch._module("cast", "float32", (("TILE", 16),))
assert type(module) is cupy.RawModule and module.options[-1] == "-DTILE=16" and module.code.startswith("//")
try:
    found = "a kernel" if launch.compile_kernel("cast", "cast", "float32", ()) else "nothing"
except cupy.cuda.runtime.CUDARuntimeError as error:
    found = str(error).partition(":")[0]
print(json.dumps(found))
"""


def test_a_kernel_comes_as_far_as_the_missing_driver():
    need("cupy")
    assert found_by(LAUNCH) in ("cudaErrorInsufficientDriver", "cudaErrorNoDevice", "a kernel")


NAMES = """
import cupy
roots, found, seen = {"cupy", "xp", "_cupy"}, set(), 0
for path in FILES:
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        chain, at = [], node
        while isinstance(at, ast.Attribute) and at.attr not in roots:
            chain.insert(0, at.attr)
            at = at.value
        root = at.attr if isinstance(at, ast.Attribute) else getattr(at, "id", None)
        if not chain or root not in roots:
            continue
        real, seen = cupy, seen + 1
        for name in chain:
            if isinstance(real, types.ModuleType | type) and not hasattr(real, name):
                found.add(".".join([Path(path).name, *chain[: 1 + chain.index(name)]]))
                break
            real = getattr(real, name, None)
print(json.dumps([sorted(found), seen]))
"""


@pytest.mark.parametrize("planted", [False, True])
def test_every_name_of_cupy_that_the_code_uses_is_there(planted, tmp_path):
    need("cupy")
    (tmp_path / "planted.py").write_text("def f(xp):\n    return xp.cuda.nccl.get_unique_id(), xp.ones(3)\n")
    folders = (TESTS.parent / "minitransformer", TESTS.parent / "benchmarks" / "gpu", *([tmp_path] if planted else []))
    files = [str(path) for folder in folders for path in folder.rglob("*.py")]
    found, seen = found_by(f"FILES = {files!r}\n{NAMES}")
    assert found == (["planted.py.cuda.nccl"] if planted else []) and seen > 100
