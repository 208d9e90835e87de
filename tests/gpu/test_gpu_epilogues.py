"""The tests of products with epilogues, with a stand-in elsewhere, on the GPU itself."""

import pytest
from test_cuda_epilogues import *  # noqa: F403

pytestmark = pytest.mark.gpu
