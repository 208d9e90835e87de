"""The real CuPy and NCCL without a GPU: how far the communicator comes there."""

import pytest
from extras import need
from systems import in_new_process

from minitransformer.errors import install_hint

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
JOIN = """
import sys
from minitransformer.distributed.nccl import NcclCommunicator
assert "cupy" not in sys.modules
try:
    ranks = NcclCommunicator(0, 1)
    ranks.join(ranks.make_id())
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_the_communicator_comes_as_far_as_the_missing_driver():
    need("cupy", "nvidia.nccl")
    expected = "BackendError: ranks: NCCL must connect the GPUs, got NCCL_ERROR_UNHANDLED_CUDA_ERROR: "
    assert in_new_process(JOIN).startswith(expected)


def test_without_nccl_the_message_names_what_brings_it():
    need("cupy")
    text = in_new_process(f"import sys; sys.modules['cupy_backends.cuda.libs.nccl'] = None\n{JOIN}")
    assert text.startswith(
        "MissingPackageError: ranks: NCCL must be installed for several GPUs, got ModuleNotFoundError"
    )
    assert f"; {install_hint('cuda13')}" in text and text.count("\n") == 1
