"""The reports of the experiments on the paper's claims say what the results say."""

import json
import sys
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from extras import need

from examples import report
from examples.paper import (
    attention_scale,
    attention_scale_report,
    crossover_report,
    label_smoothing,
    long_range,
    long_range_report,
    positions,
    positions_figure,
    positions_report,
    program,
    recurrent,
    recurrent_report,
    table1_report,
    table2,
    table3,
    table3_report,
    trials,
)

EXPERIMENTS = {
    "attention_scale": attention_scale,
    "positions": positions,
    "long_range": long_range,
    "recurrent": recurrent,
}
RESULTS = Path(__file__).parents[2] / "examples/paper/results"


def test_the_committed_pages_are_what_the_results_say():
    rows = program.read_results(RESULTS / "table3.jsonl")
    table1 = json.loads((RESULTS / "table1.json").read_text(encoding="utf-8"))
    pages = {name: each.markdown(program.read_results(RESULTS / f"{name}.jsonl")) for name, each in EXPERIMENTS.items()}
    pages |= {
        "table1": table1_report.markdown(table1),
        "table2": table2.markdown(table2.trainings()),
        "table3": table3_report.markdown(rows, table3.PAPER),
        "label_smoothing": label_smoothing.report(rows),
        "crossover": crossover_report.markdown(program.read_results(RESULTS / "crossover.jsonl")),
    }
    for name, text in pages.items():
        assert text == (RESULTS / f"{name}.md").read_text(encoding="utf-8"), name


@pytest.mark.parametrize(
    "name", ["attention_scale", "positions", "long_range", pytest.param("recurrent", marks=pytest.mark.slow)]
)
def test_a_quick_run_prints_its_report_and_writes_nothing(name, monkeypatch, capsys, tmp_path):
    if name == "recurrent":
        need("sacrebleu")
    module = EXPERIMENTS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--results", str(tmp_path / "results.jsonl")])
    assert trials.main(module.EXPERIMENT) == 0
    text = capsys.readouterr().out
    assert text.startswith("# ")
    assert name != "recurrent" or all(f"| {model} | " in text for model in module.SETTINGS["models"])
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_of_the_seeds_that_have_every_trial_and_needs_no_other(monkeypatch, tmp_path, capsys, refused):
    need("matplotlib")
    module, path = long_range, tmp_path / "results.jsonl"
    whole = (RESULTS / "long_range.jsonl").read_text(encoding="utf-8")
    one_of_seed_21 = whole.splitlines()[0].replace('"seed": 1,', '"seed": 21,')  # what a killed run has left
    path.write_text(f"{whole}{one_of_seed_21}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["long_range", "--results", str(path)])
    assert trials.main(module.EXPERIMENT) == 0
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert text == capsys.readouterr().out == (RESULTS / "long_range.md").read_text(encoding="utf-8")
    path.write_text(json.dumps({"name": "recurrent, 4", "seed": 1, "settings": {"distances": [3]}}), encoding="utf-8")
    refused(trials.main(module.EXPERIMENT), "results must have the settings")


def committed(name: str, copies: int = 1, seeds: int = 5) -> list[dict]:
    """The first seeds of an experiment, several times over, as if by others."""
    results = [each for each in program.read_results(RESULTS / f"{name}.jsonl") if each["seed"] <= seeds]
    return [each | {"seed": each["seed"] + 5 * copy} for copy in range(copies) for each in results]


def test_five_seeds_leave_open_what_twenty_decide():
    few, many = (attention_scale_report.verdicts(committed("attention_scale", seeds=n)) for n in (5, 20))
    assert few[1][1].endswith("scaled dot product 5 of 5, dot product 0 of 5")
    assert few[1][2].startswith("open") and many[1][2].startswith("agrees")
    assert many[2][2].startswith("open")  # all have solved both
    answers = {row[0]: row[2] for row in long_range_report.verdicts(committed("long_range", 4))}
    assert answers["greater distances are learned less often"] == "does not agree"


def test_what_one_kind_learns_without_a_path_leaves_open_that_nothing_is_learned():
    results = committed("long_range")
    learned = [each | ({"accuracy": [0.5] * 4} if each["name"] == "convolutional, 64" else {}) for each in results]
    for given, verdict in ((results, "agrees"), (learned, "open: not shown to be equivalent to chance")):
        assert long_range_report.verdicts(given)[-1][2] == verdict


@pytest.mark.parametrize("times, verdict", [(0.9, "agrees"), (1.1, "open: not shown to be equivalent")])
def test_attention_is_alike_up_to_the_bound_and_not_beyond(times, verdict):
    results, bound = committed("attention_scale"), 0.1 * np.log(16)
    for each in results:
        if each.get("updates") == 100 and each["d_k"] == 4:
            loss = times * bound * (each["scores"] == "additive") + 1e-3 * each["seed"] ** 2 * (
                each["scores"] != "additive"
            )
            each["loss"] = [loss] * len(each["loss"])
    assert attention_scale_report.verdicts(results)[3][2].startswith(verdict)


def test_recurrent_models_are_compared_seed_by_seed_and_corrected_for_nine_comparisons():
    """Seeds scatter by 20 BLEU in common and models differ by 1 to 3; then every p-value is near 3 %."""
    results = [each for each in committed("recurrent") if each.get("task") == "Multi30k"]
    speed = [each for each in committed("recurrent") if each["name"] == "speed"]
    models = list(results[0]["settings"]["models"])

    def planted(scatter: list[float]) -> str:
        changed = []
        for each in results:
            ahead = models.index(each["model"]) * np.array([1, 1, 1, 1, 2.0])
            of_seed = 20 * each["seed"] + scatter[each["seed"] - 1] * ahead
            changed.append(each | {"bleu": (of_seed + ahead).tolist()})
        return recurrent_report.verdicts(changed + speed, "Multi30k")

    shown = planted([0.0, 0.001, -0.001])
    assert "not significantly different" not in shown and shown.count("| lower |") == 3  # falls from short to long
    assert planted([0.0, 0.29, -0.29]).count("not significantly different") == 12  # nine figures, and three verdicts


def test_a_base_is_good_only_if_no_other_is_shown_better_and_alike_only_within_the_bound():
    results = committed("positions")

    def verdicts(nll: dict[str, float], scattered: str = "") -> list[str]:
        changed = []
        for each in results:
            scatter = 0.1 if each["name"] == scattered else 1e-4 * len(each["name"])
            changed.append(each | {"nll": [nll.get(each["name"], 1.0) + scatter * (each["seed"] - 3)] * 9})
        return [row[2] for row in positions_report.verdicts(changed)[:2]]

    assert verdicts({}) == ["agrees", "agrees"]
    assert verdicts({"learned": 1.015, "base 100": 0.985}) == ["agrees", "agrees"]  # significant, and within 0.02
    assert verdicts({"base 10": 1.03, "base 100": 0.985})[1] == "agrees"
    assert verdicts({"base 100": 0.985}, scattered="base 10")[1] == "open: not shown to be equivalent"
    assert verdicts({"learned": 1.03, "base 100": 0.97}) == [
        "does not agree: worse",
        "does not agree: lower with base 100",
    ]


def test_the_page_of_positions_shows_the_control_in_every_table():
    control = {"copied": [1.0] * 9, "ended": [0.25] * 9, "sequences": [1.0] * 9}
    results = [each | (control if each["name"] == positions_report.CONTROL else {}) for each in committed("positions")]
    page = positions_report.markdown(results)
    assert "| symbols reached beyond training: 16 |" in page
    assert page.count("| base 10000, random offsets |") == 4 and page.count("| base 10 |") == 5
    assert "| base 10000, random offsets |" + " 25.0 ± 0.0 |" * 9 in page


def test_an_experiment_with_a_picture_writes_it_beside_its_page(monkeypatch, tmp_path):
    need("matplotlib")
    path = tmp_path / "results.jsonl"
    path.write_bytes((RESULTS / "positions.jsonl").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["positions", "--results", str(path)])
    assert trials.main(positions.EXPERIMENT) == 0
    assert sorted(each.suffix for each in tmp_path.glob("results.*")) == [".jsonl", ".md", ".png"]


def test_the_picture_of_positions_shows_the_mean_of_all_seeds():
    need("matplotlib")
    results = committed("positions")
    panels = positions_figure.draw(results).axes
    assert [panel.get_title() for panel in panels] == [f"trained up to {n} symbols" for n in (8, 16, 32, 64)]
    assert [len(panel.containers) for panel in panels] == [2, 3, 2, 2]
    name = f"{positions_report.CONTROL}, up to 64"
    shown = panels[-1].containers[-1].lines[0].get_ydata()
    assert shown == pytest.approx(100 * np.mean([each["copied"] for each in results if each["name"] == name], axis=0))


@pytest.mark.parametrize(
    "page", [lambda results: table3_report.markdown(results, table3.PAPER), label_smoothing.report]
)
def test_the_pages_of_table_3_name_every_processor_and_gpu(page):
    results = program.read_results(RESULTS / "table3.jsonl")
    for each in results:
        gpu = {"GPU": "a card"} if each["seed"] == 5 else {}
        each["machine"] = each["machine"] | {"processor": f"processor {each['seed'] % 2}"} | gpu
    assert "a card, processor 0, processor 1" in page(results)


@pytest.mark.parametrize(("trouble", "named"), [(None, "a card (CuPy 14)"), ("there is no NVIDIA driver", None)])
def test_a_result_names_the_gpu_where_cupy_was_loaded_and_can_use_it(trouble, named, monkeypatch):
    runtime = SimpleNamespace(getDeviceProperties=lambda number: {"name": b"a card"})
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="14", cuda=SimpleNamespace(runtime=runtime)))
    monkeypatch.setattr(report, "cuda_trouble", lambda: trouble)
    assert report.machine_facts().get("GPU") == named
    monkeypatch.delitem(sys.modules, "cupy")
    assert "GPU" not in report.machine_facts()


@pytest.mark.parametrize(
    "trouble", [FileNotFoundError("git"), CalledProcessError(128, "git"), TimeoutExpired("git", 30)]
)
def test_a_result_is_not_lost_where_git_does_not_tell_the_commit(trouble, monkeypatch):
    monkeypatch.setattr(report.subprocess, "run", Mock(side_effect=trouble))
    assert report.commit() == "unknown"


def test_label_smoothing_has_one_verdict_on_both_pages():
    rows = program.read_results(RESULTS / "table3.jsonl")
    (first, *_), d3 = label_smoothing.compared(rows), table3_report.beside_base(rows, table3.PAPER)["D3"]
    assert first[0] == "0.1 (base) minus 0 (D3)" and first[-2] == f"{d3.p_holm:.3g}"
    assert (first[-1], table3_report.verdict("D3", d3)) == ("higher, as in the paper", "lower, as in the paper")
    noisy = [each | {"nll": each["nll"] + 0.1 * (-1) ** each["seed"] * (each["name"] == "base")} for each in rows]
    first_of_noisy, *others = label_smoothing.compared(noisy)
    assert first_of_noisy[-1].startswith("open") and others == label_smoothing.compared(rows)[1:]  # corrected apart
    alone = label_smoothing.compared([each for each in rows if each["seed"] == 1])
    assert [row[-3:] for row in alone] == [["", "", "not tested: one seed"]] * 4
