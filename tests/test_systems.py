"""Tests that need a feature of the operating system are skipped where it is missing, and nowhere else."""

import sys

import pytest
import systems


@pytest.mark.parametrize("is_here", [True, False])
def test_a_test_is_skipped_where_its_feature_is_missing(is_here, monkeypatch):
    monkeypatch.setitem(systems.FEATURES, "wings", is_here)
    mark = systems.needs("wings").mark
    assert mark.args == (not is_here,) and "wings" in mark.kwargs["reason"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has them all")
def test_linux_has_every_feature_that_a_test_needs():
    assert all(systems.FEATURES.values()), systems.FEATURES
