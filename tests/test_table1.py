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
    assert counts == {"self-attention": 2, "recurrent": n, "convolutional": 1, "restricted": 2}


def test_a_chain_of_products_is_as_long_as_its_longest_branch(table1, rng):
    a, b = rng.standard_normal((2, 3, 3))

    def tree(x):
        return (x @ a) @ b + x @ b  # two of three are one after the other

    def joined(x):
        return np.concatenate([x @ a, x]) @ b

    def filled(x):
        y = np.empty_like(x)
        y[:] = x @ a
        return y @ b

    def reused(x):
        y = np.empty_like(x)
        np.matmul(x, a, out=y)
        np.matmul(x, b, out=y)
        return np.matmul(x, a, out=y)

    for function, depths in ((tree, [1, 2, 1]), (joined, [1, 2]), (filled, [1, 2]), (reused, [1, 1, 1])):
        assert [each.depth for each in table1.products_of(function, rng.standard_normal((3, 3)))] == depths


def constructed(table1, exponents):
    """Results with these exponents of seconds for every kind of layers, one a doubling."""
    parts = {}
    for name, fixed in (("n", {"d": 8, "r": 4}), ("d", {"n": 8, "r": 4}), ("r", {"n": 8, "d": 4})):
        kinds = table1.KINDS if name != "r" else ["restricted"]
        seconds = {kind: (2.0 ** np.cumsum([0, *exponents(kind, name)])).tolist() for kind in kinds}
        layers = {kind: {"seconds": values, "bytes": [2.0, 4.0, 8.0]} for kind, values in seconds.items()}
        parts[name] = {"sizes": [2, 4, 8], "fixed": fixed, "layers": layers, "crossing": 12.0}
    lengths = list(table1.PATH_LENGTHS)
    products = {kind: lengths if kind == "recurrent" else [2, 2, 2] for kind in table1.KINDS}
    layers = {"self-attention": [1, 1, 1], "recurrent": [1, 1, 1], "convolutional": [n - 1 for n in lengths]}
    layers |= {"restricted": [-(-(n - 1) // 4) for n in lengths], "convolutional, dilated": [3, 4, 5]}
    paths = {"lengths": lengths, "r": 8, "layers": layers}
    machine = {"processor": "a processor", "NumPy": "2", "commit": "c0ffee"}
    return parts | {"machine": machine, "batch": 4, "k": 3, "products": products, "paths": paths}


def test_the_report_says_which_exponents_and_paths_are_the_papers(table1):
    papers = importlib.import_module("table1_report").PAPER
    result = constructed(table1, lambda kind, name: [0.5, papers[kind][1][name] + 0.1])
    text = table1.markdown(result)
    assert "all within 0.2 of the paper's | agrees |" in text and "other growth: none | agrees |" in text
    assert "| up to n = 12 at d = 8 | agrees |" in text
    assert "| recurrent | O(n d²) | d | 2 | 0.50, 2.10 | 1.00 |" in text
    result["paths"]["layers"]["restricted"][0] += 1
    result["products"]["recurrent"] = [1, 1, 1]
    result["r"]["layers"]["restricted"]["seconds"][-1] *= 2**0.9
    result["n"]["crossing"] = 7.0  # below d
    text = table1.markdown(result)
    assert "restricted in r 2.00 instead of 1 | does not agree |" in text
    assert "other growth: restricted, recurrent's products | does not agree |" in text
    assert "| up to n = 7 at d = 8 | does not agree |" in text


def test_the_report_says_how_fast_the_recurrent_matrix_is_read(table1):
    """(d, 3 d) float32 for each of 8 positions, forward and backward: 16 * 48 bytes at d = 2."""
    result = constructed(table1, lambda kind, name: [0.0, 0.0])
    result["d"]["layers"]["recurrent"]["seconds"] = [1e-6, 1e-6, 1e-6]
    assert "it reads 0.77, 3.1, 12 GB/s" in table1.markdown(result)


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
