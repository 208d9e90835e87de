"""Table 3: scaling, parameter counts, report, and a sweep that was killed."""

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from examples.paper import table3
from examples.paper import table3_report as report
from minitransformer.planning import Cost

PAPER = table3.PAPER


def test_every_row_is_named_by_itself_or_by_its_group_once():
    rows_of = table3.rows_of
    assert rows_of(["C"]) == [f"C{number}" for number in range(1, 8)]
    assert rows_of(["B2", "base", "B"]) == ["B2", "base", "B1"]
    assert set(rows_of(["base", *"ABCDE", "big"])) == set(PAPER)
    assert rows_of(["C3-pre", "E", "base-pre", "C3-pre"]) == ["C3-pre", "E", "base-pre"]


@pytest.mark.parametrize("row", ["base", "A4", "B1", "C4", "C7", "big"])
def test_class_scale_divides_widths_by_4_and_layers_by_2_and_nothing_else(row):
    full, scaled = table3.ModelConfig.table3(row, 4000), table3.class_scale(row, 4000)
    assert table3.class_scale(f"{row}-pre", 4000) == replace(scaled, norm="pre") != scaled
    for name, value in vars(full).items():
        divisor = {"d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4, "n_layers": 2}.get(name, 1)
        assert getattr(scaled, name) * divisor == value if divisor > 1 else getattr(scaled, name) == value, name


def test_the_printed_vocabularies_give_the_papers_parameter_counts():
    for line in table3.parameter_lines()[1:]:
        found = re.fullmatch(r"(\w+) .* M +(\d+) M  ([\d,]+) to ([\d,]+)", line)
        if PAPER[line.split()[0]][2] is None:
            assert not found
            continue
        row, millions = found[1], int(found[2])
        low, high = (int(size.replace(",", "")) for size in found.groups()[2:])
        for size, expected in ((low, millions), (high, millions), (low - 1, millions - 1), (high + 1, millions + 1)):
            assert round(table3.parameter_count(table3.ModelConfig.table3(row, size)) / 1e6) == expected


def test_a_row_has_the_last_loss_and_the_bleu_of_the_last_checkpoint_on_the_development_set(tmp_path, monkeypatch):
    lines = [{"kind": kind, "nll": nll, "ppl": 1.0} for kind, nll in (("valid", 3.0), ("valid", 2.0), ("train", 1.0))]
    folder, cost = SimpleNamespace(metrics=None, paths=lambda: ["first", "last"]), Cost(1.0, 2.0, 1, 3.0)
    stubs = {
        "Trainer": lambda config, progress: SimpleNamespace(config=config, folder=folder, cost=lambda: cost),
        "run_to_end": lambda trainer: None,
        "read_metrics": lambda path: lines,
        "load_checkpoint": lambda path: SimpleNamespace(build=lambda device: (path, None)),
        "read_lines": lambda path: [Path(path).name],
        "translate_lines": lambda model, tokenizer, sources, search: [f"{model} of {sources}"],
        "corpus_bleu": lambda ours, theirs: SimpleNamespace(score=(ours, theirs), signature=""),
    }
    for name, stub in stubs.items():
        monkeypatch.setattr(table3, name, stub)
    monkeypatch.setattr(sys, "argv", ["table3", f"--data={tmp_path}"])
    found = table3.train_and_score("C4", 1, table3.parse_arguments())
    assert (found["nll"], found["bleu"]) == (2.0, (["last of ['val.en']"], ["val.de"]))


def results_like(factor, noise):
    """Results of three seeds whose log-perplexities differ from base's by ``factor`` times the paper's differences."""
    facts = {"parameters": 10**6, "flops": 1e15, "flops_paper": 2e15, "seconds": 60.0, "settings": {"updates": 1}}
    facts |= {"machine": {"processor": "a processor", "commit": "c0ffee"}}
    return [
        {"name": row, "seed": seed, "nll": 2 + factor * math.log(perplexity / PAPER["base"][0]) + error, "bleu": bleu}
        | facts
        for row, (perplexity, bleu, _) in PAPER.items()
        for seed, error in enumerate(noise, 1)
    ]


def scattered(rng, factor, common, own):
    """`results_like` with noise of each seed in common, and noise of each row's own."""
    results = results_like(factor, (0, 0, 0))
    of_seed = dict(enumerate(common * rng.standard_normal(3), 1))
    return [r | {"nll": r["nll"] + of_seed[r["seed"]] + own * rng.standard_normal()} for r in results]


def test_rows_are_compared_with_base_seed_by_seed(rng):
    """Seeds scatter by a nat, in common, which hides every difference but from pairs."""
    rows = report.beside_base(scattered(rng, 1, common=1.0, own=1e-4), PAPER)
    separate = {row for row, (perplexity, *_) in PAPER.items() if abs(math.log(perplexity / PAPER["base"][0])) > 0.02}
    assert len(separate) == 12 and {row for row in rows if rows[row].is_separate} == separate
    for row in separate - {"big"}:
        how = "higher" if PAPER[row][0] > PAPER["base"][0] else "lower"
        assert report.verdict(row, rows[row]) == f"{how}, as in the paper"
    opposite = report.beside_base(scattered(rng, -1, common=1.0, own=1e-4), PAPER)
    assert all(report.verdict(row, opposite[row]).endswith(", not as in the paper") for row in separate - {"big"})
    unclear = report.beside_base(scattered(rng, 1, common=0.0, own=9.0), PAPER)
    assert sum(report.verdict(row, unclear[row]) == "open: not significantly different" for row in unclear) > 15
    single = report.beside_base(results_like(1, (0,)), PAPER)
    assert {report.verdict(row, single[row]) for row in single} == {"not tested: one seed", "not replicated by design"}


def test_rows_that_equal_base_are_all_left_open_in_nineteen_of_twenty_experiments(rng):
    """For each of the two questions, of the rows that the paper separates and of those it does not."""
    n, alarms = 300, {True: 0, False: 0}
    for _ in range(n):
        rows = report.beside_base(scattered(rng, 0, common=1.0, own=0.1), PAPER).values()
        for kind in alarms:
            alarms[kind] += any(row.sign for row in rows if row.is_separate == kind)
    assert max(alarms.values()) / n < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5


def test_big_counts_in_no_verdict(rng):
    results = scattered(rng, 1, common=1.0, own=1e-4)
    without = [each for each in results if each["name"] != "big"]
    assert report.summary(results, PAPER) == report.summary(without, PAPER)
    same_side, told, equal = (row[2] for row in report.summary(results, PAPER))
    assert (same_side, told, equal) == ("agrees in 11 of 11", "agrees in 11", "agrees in 7")


def test_a_row_on_the_other_side_of_base_is_counted_against_the_claim(rng):
    results = scattered(rng, 1, common=1.0, own=1e-4)
    base = {each["seed"]: each["nll"] for each in results if each["name"] == "base"}
    for each in results:
        if each["name"] == "C1":
            each["nll"] = 2 * base[each["seed"]] - each["nll"]
    same_side, told, _ = report.summary(results, PAPER)
    assert same_side[1:] == ["all but: C1", "agrees in 10 of 11"] and told[2] == "agrees in 10, does not agree in 1"


def test_rows_are_equal_only_within_the_bound_and_open_where_seeds_scatter(rng):
    equal = [row for row, each in report.beside_base(results_like(1, (0, 0)), PAPER).items() if not each.is_separate]
    for own, verdict in ((1e-4, "equal, as in the paper"), (0.5, "open: not significantly different")):
        rows = report.beside_base(scattered(rng, 0, common=1.0, own=own), PAPER)
        assert {report.verdict(row, rows[row]) for row in equal} == {verdict}
    rows = report.beside_base(scattered(rng, 3, common=1.0, own=1e-4), PAPER)
    assert report.verdict("A4", rows["A4"]) == "higher, equal in the paper"  # three times 0.018


def test_rows_in_pre_norm_are_compared_with_base_in_pre_norm(rng):
    post = scattered(rng, 1, common=1.0, own=1e-4)
    pre = [each | {"name": f"{each['name']}-pre"} for each in scattered(rng, -3, common=1.0, own=1e-4)]
    summary = report.summary(post + [each for each in pre if each["name"] in ("base-pre", "C1-pre")], PAPER)
    assert summary[:-1] == report.summary(post, PAPER)
    assert summary[-1][0] == "C1 and base, both in pre-norm" and summary[-1][2] == "lower, not as in the paper"
    assert "| C1-pre | 3 |" in report.markdown(post + pre, PAPER)


def test_hours_are_those_of_a_core_and_left_out_where_a_gpu_alone_has_trained():
    results = results_like(1, (0, 0, 0))
    for each in results:
        each["seconds"] = 3600.0 * each["seed"]
        if each["name"] == "C3" or (each["name"], each["seed"]) == ("base", 1):
            each["machine"] = each["machine"] | {"GPU": "a card"}
    hours = dict(re.findall(r"\| (\w+) \| 3 \|.* M \| .* \| (.*) \|", report.markdown(results, PAPER)))
    assert (hours["base"], hours["C3"], hours["C4"]) == ("2.00", "", "1.00")
