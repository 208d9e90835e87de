"""The real CuPy and NCCL without a GPU: how far the communicator comes there, and that stand-ins promise no more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from extras import need
from recorded_cuda import Cuda, World

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
TESTS = Path(__file__).parents[1]
JOIN = """
from minitransformer.distributed.nccl import NcclCommunicator
assert "cupy" not in sys.modules
try:
    ranks = NcclCommunicator(0, 1)
    ranks.join(ranks.make_id())
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def in_new_process(program: str) -> str:
    """What it prints where nothing has been imported and no GPU is seen."""
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS)))
    variables = os.environ | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", "-c", f"import sys\n{program}"]
    return subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def test_the_communicator_comes_as_far_as_the_missing_driver():
    need("cupy", "nvidia.nccl")
    assert in_new_process(JOIN).startswith("NcclError: NCCL_ERROR_")


def test_without_nccl_the_message_names_what_brings_it():
    need("cupy")
    text = in_new_process(f"sys.modules['cupy_backends.cuda.libs.nccl'] = None\n{JOIN}")
    assert text.startswith("MissingPackageError: ranks: NCCL must be installed for several GPUs, got none; run pip")


def test_the_stand_in_has_nothing_that_cupy_lacks():
    """Modules as ``import cupy`` leaves them: what another import adds is not there yet."""
    need("cupy", "nvidia.nccl")
    printed = in_new_process("import cupy\nprint(*dir(cupy.cuda))\nfrom cupy.cuda import nccl\nprint(*dir(nccl))")
    of_cuda, of_nccl = (set(line.split()) for line in printed.splitlines())
    recorded = Cuda(World(1), 0)
    assert vars(recorded.cuda).keys() <= of_cuda and vars(recorded.nccl).keys() <= of_nccl
