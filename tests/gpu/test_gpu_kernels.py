"""The tests of the kernels, emulated elsewhere, on the GPU itself."""

import pytest
from test_cuda_kernels import *  # noqa: F403

pytestmark = pytest.mark.gpu
