"""What a run of the ladder is scored with, and which of two values a rung keeps."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from extras import need

from examples.multi30k import ladder, ladder_report, one_run
from examples.multi30k.rungs import climb
from minitransformer.config import ExecutionConfig

REFERENCES = [
    "Ein Mann im T-Shirt fragt: „Wie geht’s?“, und niemand antwortet ihm.",
    "Zwei kleine Hunde laufen über das nasse Gras & spielen mit einem Ball.",
]


def test_bleu_is_sacrebleus_of_the_translations_by_the_mean_that_is_asked_for(moses, monkeypatch):
    """Of translations that are too short: exchanged with their references they would have another score."""
    sacrebleu = need("sacrebleu")
    translations, means = [line[:-9] for line in REFERENCES], []
    model = SimpleNamespace(build=lambda device: (None, None))
    monkeypatch.setattr(one_run, "mean_of_last", lambda config, count: means.append(count) or model)
    monkeypatch.setattr(one_run, "translate_lines", lambda model, tokenizer, sources, search: translations)
    found = one_run.scores(SimpleNamespace(translation=None, execution=ExecutionConfig()), 10, ["a", "b"], REFERENCES)
    assert means == [10]
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(translations, [REFERENCES]).score)
    ours, theirs = ([one_run.moses_lower(line) for line in side] for side in (translations, REFERENCES))
    assert found["lower"] == pytest.approx(sacrebleu.corpus_bleu(ours, [theirs], tokenize="none").score)


def test_a_result_has_the_last_validation_loss_and_each_mean_scored_on_the_validation_set(tmp_path, monkeypatch):
    arguments = ladder.parse_arguments([f"--data={tmp_path}"])
    lines = [{"kind": "valid", "nll": 3.0}, {"kind": "valid", "nll": 2.0}, {"kind": "train", "nll": 1.0}]
    folder = SimpleNamespace(metrics=None)
    monkeypatch.setattr(one_run, "Trainer", lambda config, progress: SimpleNamespace(config=config, folder=folder))
    monkeypatch.setattr(one_run, "run_to_end", lambda trainer: None)
    monkeypatch.setattr(one_run, "parameter_count", lambda model: 1)
    monkeypatch.setattr(one_run, "read_metrics", lambda path: lines)
    monkeypatch.setattr(one_run, "read_parallel", lambda *paths: [Path(path).name for path in paths])
    monkeypatch.setattr(one_run, "scores", lambda config, *given: given)
    result = one_run.train_and_score(climb([], 3, 99)[0], 1, arguments)
    assert result["nll"] == 2.0
    assert result["val"] == {"1": (1, "val.en", "val.de"), "10": (10, "val.en", "val.de")}


def test_the_value_of_a_rung_is_that_of_the_best_mean_and_not_of_the_luckiest_seed():
    bleu = {"peak rate 0.003": (29.0, 36.0), "peak rate 0.005": (33.0, 33.0)}
    results = [
        {"name": name, "seed": seed, "val": {"10": {"bleu": score}}}
        for name, scores in bleu.items()
        for seed, score in enumerate(scores, 1)
    ]
    assert climb(results, 2, 99)[-1].settings["training.learning_rate"] == 0.005


def test_the_scores_of_the_test_set_are_means_of_the_seeds_with_their_errors():
    scores = [{"bleu": 40.0, "lower": 41.0}, {"bleu": 42.0, "lower": 44.0}]
    shown = ladder_report.test_scores({"rung": "pre-norm", "scores": scores})
    assert re.findall(r"\d+\.\d+(?: ± \d+\.\d+)?", shown) == ["41.00 ± 1.00", "42.50 ± 1.50", "40.00", "42.00"]
