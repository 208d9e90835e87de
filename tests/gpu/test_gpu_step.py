"""The tests of whole updates, emulated elsewhere, on the GPU itself."""

import pytest
from test_cuda_step import *  # noqa: F403

pytestmark = pytest.mark.gpu
