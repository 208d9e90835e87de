"""Tests on a real GPU: python -m pytest -m gpu. Without a usable GPU they are skipped, with the reason."""

from pathlib import Path

import pytest
from extras import need

HERE = Path(__file__).parent


@pytest.fixture
def device(card):
    need("ml_dtypes")
    return card


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("gpu")
