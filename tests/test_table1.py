"""Table 1 as it is measured: sequential products, layers on a path and crossings are what they are by definition."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def table1(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples/paper")
    return importlib.import_module("table1")


@pytest.mark.parametrize("n", [5, 17])
def test_only_the_recurrent_layer_needs_a_product_for_each_position(table1, n):
    counts = {kind: table1.sequential_products(kind, n) for kind in table1.KINDS}
    assert counts == {"self-attention": 2, "recurrent": n, "convolutional": table1.KERNEL, "restricted": 2}


@pytest.mark.parametrize("n", [4, 11, 30])
def test_a_path_needs_as_many_layers_as_the_reach_of_one_demands(table1, n):
    assert table1.layers_needed("self-attention", n) == 1
    assert table1.layers_needed("recurrent", n) == 1
    assert table1.layers_needed("restricted", n, r=6) == math.ceil((n - 1) / 3)
    assert table1.layers_needed("convolutional", n) == n - 1  # kernel 3 reaches one position to each side


@pytest.mark.parametrize("n_layers", [2, 3, 4])
def test_dilated_convolutions_reach_exponentially_far(table1, n_layers):
    n = (3**n_layers - 1) // 2 + 1
    assert table1.layers_needed("convolutional", n, dilated=True) == n_layers


def test_a_recurrent_output_depends_on_no_later_input(table1):
    gradient = table1.input_gradient("recurrent", 9, 2, t=4)
    assert (gradient[:5] > 0).all() and (gradient[5:] == 0).all()


def test_power_laws_cross_where_they_are_equal(table1):
    sizes = np.array([64, 128, 256, 512, 1024])
    assert table1.crossing(sizes, 1e-9 * sizes**2.0, 3e-7 * sizes) == pytest.approx(300)
    assert table1.crossing(sizes, 1e-3 * sizes, 1e-4 * sizes) is None
