"""The real CuPy and NCCL without a GPU: how far the communicator comes there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from extras import need

from minitransformer.errors import install_hint

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
    command = [sys.executable, "-c", f"import sys\n{program}"]
    return subprocess.run(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, timeout=60
    ).stdout


def test_the_communicator_comes_as_far_as_the_missing_driver():
    need("cupy", "nvidia.nccl")
    expected = "BackendError: ranks: NCCL must connect the GPUs, got NCCL_ERROR_UNHANDLED_CUDA_ERROR: "
    assert in_new_process(JOIN).startswith(expected)


def test_without_nccl_the_message_names_what_brings_it():
    need("cupy")
    text = in_new_process(f"sys.modules['cupy_backends.cuda.libs.nccl'] = None\n{JOIN}")
    assert text.startswith(
        "MissingPackageError: ranks: NCCL must be installed for several GPUs, got ModuleNotFoundError"
    )
    assert f"; {install_hint('cuda13')}" in text and text.count("\n") == 1
