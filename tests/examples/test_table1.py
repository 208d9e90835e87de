"""Table 1 as it is measured: sequential products, layers on a path and crossings are what they are by definition."""

import json
import math

import numpy as np
import pytest

from examples.paper import table1, table1_report


@pytest.mark.parametrize("n", [5, 17])
def test_only_the_recurrent_layer_needs_a_product_for_each_position(n):
    counts = {kind: table1.sequential_products(kind, n) for kind in table1.KINDS}
    assert counts == {"self-attention": 2, "recurrent": n, "convolutional": 1, "restricted": 2}


def test_a_chain_of_products_is_as_long_as_its_longest_branch(rng):
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


@pytest.mark.parametrize("n", [4, 11, 30])
def test_a_path_needs_as_many_layers_as_the_reach_of_one_demands(n):
    assert table1.layers_needed("self-attention", n) == 1
    assert table1.layers_needed("recurrent", n) == 1
    assert table1.layers_needed("restricted", n, r=6) == math.ceil((n - 1) / 3)
    assert table1.layers_needed("convolutional", n) == n - 1  # kernel 3 reaches one position to each side


@pytest.mark.parametrize("n_layers", [2, 3, 4])
def test_dilated_convolutions_reach_exponentially_far(n_layers):
    n = (3**n_layers - 1) // 2 + 1
    assert table1.layers_needed("convolutional", n, dilated=True) == n_layers


def test_a_recurrent_output_depends_on_no_later_input():
    gradient = table1.input_gradient("recurrent", 9, 2, t=4)
    assert (gradient[:5] > 0).all() and (gradient[5:] == 0).all()


def test_power_laws_cross_where_they_are_equal():
    sizes = np.array([64, 128, 256, 512, 1024])
    assert table1.crossing(sizes, 1e-9 * sizes**2.0, 3e-7 * sizes) == pytest.approx(300)
    assert table1.crossing(sizes, 1e-3 * sizes, 1e-4 * sizes) is None
    assert table1.crossing(sizes, [1.0, 3.0, 3.0, 3.0, 1.0], [2.0] * 5) is None  # at the largest it is faster again


@pytest.mark.parametrize(("times", "verdict"), [(0.1, "agrees"), (10, "does not agree")])
def test_attention_is_faster_than_recurrence_also_where_their_times_never_cross(times, verdict):
    result = json.loads((table1.RESULTS / "table1.json").read_text(encoding="utf-8"))
    result["n"]["crossing"], layers = None, result["n"]["layers"]
    layers["self-attention"]["seconds"] = [times * each for each in layers["self-attention"]["seconds"]]
    assert table1_report.verdicts(result)[-1][-1] == verdict


def test_the_exponent_is_fitted_on_either_side_of_the_cache_and_the_step_between_is_in_neither():
    sizes = np.array([64, 128, 256, 512, 1024, 2048])
    seconds = np.where(sizes <= 256, sizes**1.5, 40 * sizes**2.0) * np.where(sizes == 512, 3, 1)
    sides = table1_report.sides_of_the_cache({"sizes": sizes, "layers": {"recurrent": {"seconds": seconds}}})
    assert {side: widths.tolist() for side, (widths, _) in sides.items()} == {
        "in": [64, 128, 256],
        "out of": [1024, 2048],
    }
    assert [exponent for _, exponent in sides.values()] == pytest.approx([1.5, 2.0])
