"""The reports of the experiments on the paper's claims say what the figures say, here of constructed results."""

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from extras import need

from minitransformer.errors import ConfigError
from minitransformer.figures import png_bytes


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples/paper")
    return importlib.import_module


@pytest.mark.parametrize("sizes", [(3, 3), (3, 5), (5, 5), (9, 20)])
def test_equal_means_are_said_to_differ_in_one_case_of_twenty(load, rng, sizes):
    compare, n = load("seeds").compare, 4000
    found = np.mean([abs(compare(*(rng.standard_normal(size) for size in sizes))) for _ in range(n)])
    assert 0.02 < found < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5
    paired = np.mean([abs(compare(rng.standard_normal(sizes[0]), np.zeros(sizes[0]))) for _ in range(n)])
    assert 0.035 < paired < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5  # degrees of freedom are whole: exactly Student's t


@pytest.mark.parametrize("sign", [-1, 1])
def test_means_differ_in_the_direction_of_their_difference(load, rng, sign):
    compare, a = load("seeds").compare, rng.standard_normal(3)
    assert compare(a + sign * 100, a) == sign and compare(a, a[::-1]) == 0
    assert compare(np.zeros(3) + sign, np.zeros(3)) == sign  # without any scatter
    assert compare(a[:1] + sign, a) == 0  # a single value has no standard error


def test_rows_that_were_constructed_with_the_papers_differences_agree(load):
    report, paper = load("label_smoothing").report, load("table3").PAPER
    results = [
        {
            "name": row,
            "seed": seed,
            "nll": math.log(paper[row][0]) + noise,
            "bleu": paper[row][1] + 10 * noise,
            "machine": {"processor": "a processor", "commit": "c0ffee"},
        }
        for row in ("base", "D3", "D4")
        for seed, noise in ((1, 0.01), (2, -0.03), (3, 0.02))  # equal for equal seeds
    ]
    text = report(results)
    assert text.count("perplexity is higher, which agrees") == text.count("BLEU is higher, which agrees") == 2
    assert "| 0.1 (base) minus 0 (D3) | 3 | 0.052 ± 0.000 | 0.052 | 0.50 ± 0.00 | 0.5 |" in text
    turned = [result | {"nll": -result["nll"], "bleu": result["seed"]} for result in results]
    assert "perplexity is lower, which does not agree with the paper, and BLEU is not distinguishable" in report(turned)
    with pytest.raises(ConfigError, match="base and D3 with the same seed, got none"):
        report(results[:1])


def constructed(experiment, figures_of):
    """A result of every trial with two seeds, which differ by a hundredth."""
    machine = {"processor": "a processor", "NumPy": "2", "commit": "c0ffee"}
    shared = {"settings": experiment.settings, "machine": machine}
    return [
        {"name": name, "seed": seed, **figures_of(name, seed / 100), **shared}
        for name in experiment.names(experiment.settings)
        for seed in (1, 2)
    ]


def attention_results(experiment, loss_of):
    n, kinds = len(experiment.settings["d_k"]), ("dot product", "scaled dot product", "additive")
    worse_rates = len(experiment.settings["learning_rates"]) - 1

    def figures(name, noise):
        if name in ("cost", "statistics"):
            keys = {"cost": ("seconds", "bytes"), "statistics": ("variance", "entropy", "gradient")}[name]
            return {kind: dict.fromkeys(keys, [1.0 + noise] * n) for kind in kinds}
        kind, d_k, updates = name.split(", ")
        losses = [loss_of(kind, int(d_k)) * 100 / int(updates) + noise, *[2.0] * worse_rates]
        shape = {"scores": kind, "d_k": int(d_k), "updates": int(updates)}
        return {**shape, "loss": losses, "accuracy": [0.75, *[0.5] * worse_rates]}

    return constructed(experiment, figures)


def test_the_report_on_attention_says_what_the_losses_say(load):
    module = load("attention_scale")
    as_claimed = attention_results(module.EXPERIMENT, lambda kind, d_k: d_k / 512 if kind == "dot product" else 0.0)
    text = module.markdown(as_claimed)
    assert (
        "without the scale: yes; the scale helps there: yes" in text
        and "two are alike: yes, not distinguishable" in text
    )
    first_rate = module.SETTINGS["learning_rates"][0]
    assert f"1.0150 ± 0.0050 | 0.750 ± 0.000 | {first_rate} |" in text
    assert "After 400 updates the loss without the scale is higher than that with it" in text
    text = module.markdown(attention_results(module.EXPERIMENT, lambda kind, d_k: 0.0))
    assert "is not distinguishable from that with it" in text
    assert "without the scale: not distinguishable; the scale helps there: not distinguishable" in text


def positions_results(experiment, learned, sinusoids, slope=1.0):
    """learned, sinusoids: accuracy at positions that training has shown, and at later ones"""
    settings = experiment.settings
    seen = settings["longest"] + 1

    def figures(name, noise):  # the loss grows with the base
        base = None if name == "learned" else int(name.removeprefix("base "))
        known, later = learned if base is None else sinusoids
        lengths = [length + 1 for length in settings["tested"]]
        tokens = [(known * min(n, seen) + later * max(n - seen, 0)) / n + noise for n in lengths]
        nll = [slope * (base or 0) / 1e4 + noise] * len(lengths)
        return {"base": base, "tokens": tokens, "sequences": tokens, "nll": nll}

    return constructed(experiment, figures)


def test_the_report_on_positions_says_what_the_accuracies_say(load):
    module = load("positions")
    text = module.markdown(positions_results(module.EXPERIMENT, (0.9, 0.2), (0.9, 0.7)))
    assert "learned positions (as in the paper's Table 3, row E)" in text and "which supports the hope" in text
    assert "27.0 are right with sinusoids and 19.0 with learned positions" in text  # 17 * 0.9 + 16 * 0.7 + 33 * 0.015
    assert "is higher than that of the best base, 10, perhaps because its neighbours are 2." in text
    text = module.markdown(positions_results(module.EXPERIMENT, (0.8, 0.95), (0.9, 0.04), slope=0.0))
    assert (
        "(unlike in the paper's Table 3, row E, perhaps" in text
        and "not distinguishable from the 17.8 of the positions seen and chance" in text
    )
    assert "not distinguishable from that of the best base, 10" in text


def long_range_results(experiment, farthest):
    """farthest: of each kind the distance up to which all is right"""

    def figures(name, noise):
        kind, distance = name.split(", ")
        right = int(distance) <= farthest[kind]
        path = kind != "convolutional" or int(distance) <= 8
        row = {"accuracy": [1.0 if right else 0.05, 0.5], "loss": [noise, 1.0], "share": 0.1 * path}
        return {"kind": kind, "distance": int(distance), "width": 40, "parameters": 50000, **row}

    return constructed(experiment, figures)


def test_the_report_on_distances_says_what_the_accuracies_say(load):
    module = load("long_range")
    farthest = dict.fromkeys(module.SETTINGS["kinds"], 16) | {"convolutional": 8}
    direct = {"self-attention": 64, "recurrent with attention": 64}
    text = module.markdown(long_range_results(module.EXPERIMENT, farthest | direct))
    assert "; convolutional 4, 8;" in text and "; self-attention 4, 8, 16, 32, 64." in text
    assert "Where there is no path at all, at most 5% are right (chance: 6%)." in text
    assert "less accurate: recurrent, convolutional, dilated convolutional, restricted self-attention;" in text
    assert "not distinguishable: recurrent with attention. That recurrent, restricted self-attention, with long" in text
    assert "paths, is less accurate agrees with sec. 4." in text  # convolutional layers have no path of that length
    text = module.markdown(long_range_results(module.EXPERIMENT, farthest | direct | {"recurrent": 64}))
    assert "So nothing can be said of layers with long paths (recurrent)." in text
    text = module.markdown(long_range_results(module.EXPERIMENT, farthest | {"recurrent": 64}))
    assert "That recurrent, with long paths, is more accurate does not agree with sec. 4" in text
    text = module.markdown(long_range_results(module.EXPERIMENT, dict.fromkeys(farthest, 0)))
    assert "self-attention none. " in text and "nothing can be said of sec. 4" in text


def test_a_distance_that_fails_between_others_is_named(load):
    module = load("long_range")
    results = long_range_results(module.EXPERIMENT, dict.fromkeys(module.SETTINGS["kinds"], 64))
    for result in results:
        if result["kind"] == "recurrent" and result["distance"] == 16:
            result["accuracy"] = [0.5, 0.5]
    text = module.markdown(results)
    assert "recurrent 4, 8, 32, 64;" in text and "With recurrent, 16 was not learned in 2 of 2 seeds." in text


def test_an_experiment_needs_at_least_one_seed(load, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["positions", "--seeds", "0"])
    with pytest.raises(SystemExit, match="2"):
        load("trials").main(load("positions").EXPERIMENT)
    assert "--seeds: must be an integer from 1 to" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["attention_scale", "positions", "long_range"])
def test_a_quick_run_prints_its_report_and_writes_nothing(load, name, monkeypatch, capsys, tmp_path):
    module = load(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--results", str(tmp_path / "results.jsonl")])
    assert load("trials").main(module.EXPERIMENT) == 0
    assert capsys.readouterr().out.startswith("# ")
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_that_is_done_writes_its_report_without_a_trial(load, monkeypatch, tmp_path, capsys):
    need("matplotlib")
    module = load("long_range")
    results = long_range_results(module.EXPERIMENT, dict.fromkeys(module.SETTINGS["kinds"], 64))
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["long_range", "--seeds", "2", "--results", str(path)])
    assert load("trials").main(module.EXPERIMENT) == 0
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == capsys.readouterr().out
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
    path.write_text(json.dumps(results[0] | {"settings": {"distances": [3]}}), encoding="utf-8")
    assert load("trials").main(module.EXPERIMENT) == 2
    assert "results must have the settings" in capsys.readouterr().err


def test_the_pictures_of_the_experiments_can_be_drawn(load):
    need("matplotlib")
    attention_scale, positions = load("attention_scale"), load("positions")
    of_attention = attention_results(attention_scale.EXPERIMENT, lambda kind, d_k: 0.5)
    of_positions = positions_results(positions.EXPERIMENT, (0.9, 0.2), (0.9, 0.7))
    assert png_bytes(attention_scale.draw(of_attention)).startswith(b"\x89PNG")
    assert png_bytes(positions.draw(of_positions)).startswith(b"\x89PNG")
