"""Table 1 as it is measured: sequential products, layers on a path and crossings are what they are by definition."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from examples import report
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


def lawful(off: float) -> dict:
    """The committed result with the times of Table 1, but for the exponents, which are ``off``."""
    result = json.loads((table1.RESULTS / "table1.json").read_text(encoding="utf-8"))
    for name in "ndr":
        for kind, layer in result[name]["layers"].items():
            powers = table1_report.PAPER[kind][1]
            others = math.prod(size ** powers.get(other, 0) for other, size in result[name]["fixed"].items())
            layer["seconds"] = [others * size ** (powers[name] + off) for size in result[name]["sizes"]]
    return result


@pytest.mark.parametrize(
    ("off", "verdict"), [(-0.3, "does not agree"), (-0.1, "agrees"), (0.1, "agrees"), (0.3, "does not agree")]
)
def test_exponents_agree_within_the_bound_below_and_above_the_papers(off, verdict):
    assert table1_report.verdicts(lawful(off))[0][-1] == verdict


def test_attention_need_not_be_faster_where_n_equals_d():
    """There n d d and n n d are the same."""
    result = lawful(0.0)
    assert result["n"]["fixed"]["d"] in result["n"]["sizes"] and table1_report.verdicts(result)[2][-1] == "agrees"


@pytest.mark.parametrize(
    ("name", "sizes", "asked", "shape"),
    [
        ("n", [16, 8], [(kind, 256, 32) for kind in table1.KINDS for _ in range(2)], (4, 8, 256)),
        ("r", [32, 64], [("restricted", 64, 32), ("restricted", 64, 64)], (4, 4096, 64)),
    ],
)
def test_forward_and_backward_of_the_layer_that_grows_are_measured(name, sizes, asked, shape, monkeypatch):
    layers, passes = [], []

    def layer(kind, d, r):
        layers.append((kind, d, r))
        return lambda x: SimpleNamespace(backward=lambda grad_y: passes.append((x.shape, grad_y.shape)))

    monkeypatch.setattr(table1, "layer", layer)
    monkeypatch.setattr(table1, "time_and_memory", lambda work, rounds: work() or {"seconds": 1.0, "bytes": 1})
    table1.growth(name, sizes, rounds=1)
    assert layers == asked and len(passes) == len(asked) and passes[-1] == (shape, shape)


def test_a_time_is_the_lowest_round_after_an_uncounted_one_and_the_memory_is_the_peak(monkeypatch):
    clock, took = [0.0], iter([1.0, 5.0, 3.0, 4.0, 2.0])  # the last one is the memory's

    def work():
        clock[0] += next(took)
        np.ones(10**6)

    monkeypatch.setattr(report, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    found = report.time_and_memory(work, rounds=3)
    assert found["seconds"] == 3.0 and found["bytes"] == pytest.approx(8e6, rel=0.01)


def test_the_exponent_is_fitted_on_either_side_of_the_cache_and_the_step_between_is_in_neither():
    sizes = np.array([64, 128, 256, 512, 1024, 2048])
    seconds = np.where(sizes <= 256, sizes**1.5, 40 * sizes**2.0) * np.where(sizes == 512, 3, 1)
    sides = table1_report.sides_of_the_cache({"sizes": sizes, "layers": {"recurrent": {"seconds": seconds}}})
    assert {side: widths.tolist() for side, (widths, _) in sides.items()} == {
        "in": [64, 128, 256],
        "out of": [1024, 2048],
    }
    assert [exponent for _, exponent in sides.values()] == pytest.approx([1.5, 2.0])
