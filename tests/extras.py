"""Tests that need a package beyond NumPy say so in one way, so that the skipped ones can be counted together."""

from collections import Counter
from collections.abc import Sequence
from types import ModuleType

import pytest


def need(*packages: str) -> ModuleType:
    """The last of the packages; the test is skipped where one is not installed."""
    for name in packages:
        module = pytest.importorskip(name, reason=f'{name} is not installed: pip install -e ".[dev]"')
    return module


NEEDS = {
    '`pip install -e ".[dev]"`': ("pip install", "could not import"),
    "MINITRANSFORMER_DATA, a folder of real corpora": ("MINITRANSFORMER_DATA",),
    "a GPU (then: python -m pytest -m gpu)": ("no GPU",),
    "Chromium or Chrome": ("no Chromium",),
    "`python site/build.py`": ("no files of Pyodide",),
}
OTHER_NEEDS = "another system (see python -m pytest -rs)"


def summary(reasons: Sequence[str]) -> str:
    """How many tests were skipped for these reasons, and what it takes to run them, the commonest first."""
    needs = Counter(
        next((need for need, words in NEEDS.items() if any(word in reason for word in words)), OTHER_NEEDS)
        for reason in reasons
    )
    parts = [f"{count} need{'s' * (count == 1)} {need}" for need, count in needs.most_common()]
    return f"{len(reasons)} skipped: {', '.join(parts)}"
