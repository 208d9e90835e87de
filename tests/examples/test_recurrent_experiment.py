"""The comparison of the recurrent models with the Transformer: equal parameters, right tasks, honest reports."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from extras import need

from examples.paper import crossover, crossover_tasks
from examples.paper import recurrent as experiment
from examples.paper import recurrent_tasks as tasks
from minitransformer.config import EOS, UNK
from minitransformer.errors import CheckpointError
from minitransformer.generation import Hypothesis


@pytest.mark.parametrize("task", ["reverse", "Multi30k"])
def test_all_models_have_within_2_percent_the_same_parameters(task):
    settings = experiment.SETTINGS
    counts = [
        experiment.parameter_count(experiment.model_config(task, model, settings)) for model in settings["models"]
    ]
    np.testing.assert_allclose(counts, counts[0], rtol=0.02)


def test_minutes_are_those_of_a_core_beside_a_gpu_too(tmp_path):
    sizes = {"vocab_size": 4000}
    configs = (
        experiment.config_of("reverse", "GRU", 1, tmp_path, experiment.SETTINGS),
        crossover_tasks.config_of("Multi30k", "GRU", sizes, 1, 0.003, tmp_path, crossover.SETTINGS),
    )
    assert [config.execution.device for config in configs] == ["cpu", "cpu"]


def test_the_seconds_of_an_update_are_those_after_the_warm_up(monkeypatch):
    clock, done = [0.0], [0]

    def run_to_end(trainer):
        """The first updates take 9 seconds each, those of the training that resumes 2."""
        clock[0] += 2.0 * (trainer.updates - done[0]) if done[0] else 9.0 * trainer.updates
        done[0] = 0 if done[0] else trainer.updates

    monkeypatch.setattr(
        experiment, "Trainer", lambda config, *_, **__: SimpleNamespace(updates=config.training.updates)
    )
    monkeypatch.setattr(experiment, "run_to_end", run_to_end)
    monkeypatch.setattr(experiment, "time", SimpleNamespace(process_time=lambda: clock[0]))
    models = experiment.SETTINGS["models"]
    assert experiment.speed(1, experiment.SETTINGS | experiment.QUICK) == {"reverse": dict.fromkeys(models, 2.0)}


def test_targets_are_the_sources_from_their_ends(rng):
    lengths = rng.integers(5, 60, 20)
    sources, targets = tasks.reversed_pairs(lengths, rng, symbols=30)
    assert [len(source) for source in sources] == lengths.tolist()
    assert all(target == list(reversed(source)) for source, target in zip(sources, targets, strict=True))
    assert {symbol for source in sources for symbol in source} <= set(range(UNK + 1, UNK + 31))
    corpus = tasks.corpus_of("reverse", 1, experiment.SETTINGS | {"sequences": 30})
    (train, _), (valid, _) = corpus.train, corpus.valid
    assert (len(train), len(valid)) == (30, 500) and not any(ids in valid for ids in train)


def test_reversing_without_a_fault_scores_100_and_copying_scores_0_exact(monkeypatch):
    need("sacrebleu")

    def answers(order):
        def search(model, src):
            return [Hypothesis(tuple(row[row != EOS][::order].tolist()), 0.0, 0.0) for row in src]

        return search

    monkeypatch.setattr(tasks, "greedy_search", answers(-1))
    perfect = tasks.reverse_scores(None, experiment.SETTINGS)
    assert perfect["bleu"] == pytest.approx([100] * 12) and perfect["exact"] == [1] * 12
    monkeypatch.setattr(tasks, "greedy_search", answers(1))
    copied = tasks.reverse_scores(None, experiment.SETTINGS)
    assert max(copied["bleu"]) < 20 and copied["exact"] == [0] * 12


def test_multi30k_is_scored_on_validation_and_no_test_set_is_read(monkeypatch):
    """Each group ends with as many words as its heading says."""
    need("sacrebleu")
    longest = experiment.SETTINGS["words"]
    lines, read = {side: [f"{side} " * n for n in longest] for side in ("en", "de")}, []
    monkeypatch.setattr(tasks, "read_lines", lambda path: (read.append(path.name), lines[path.suffix[1:]])[1])
    monkeypatch.setattr(tasks, "multi30k_tokenizer", lambda vocab_size: None)
    monkeypatch.setattr(tasks, "translate_lines", lambda model, tokenizer, sources, config: lines["de"])
    scores = tasks.translation_scores(None, experiment.SETTINGS)
    assert read == ["val.en", "val.de"]
    assert scores == {"bleu": pytest.approx([100] * 5), "bleu_of_all": pytest.approx(100)}


def test_bleu_is_that_of_the_outputs_beside_their_references(monkeypatch):
    """Exchanged, outputs that are too short would lose nothing for it."""
    given, one_length = [], {"lengths": [5], "of_each_length": 2}
    monkeypatch.setattr(tasks, "corpus_bleu", lambda *sides: given.append(sides) or SimpleNamespace(score=1.0))
    monkeypatch.setattr(tasks, "greedy_search", lambda model, src: [Hypothesis((7,), 0.0, 0.0)] * len(src))
    tasks.reverse_scores(None, experiment.SETTINGS | one_length)
    monkeypatch.setattr(tasks, "read_lines", lambda path: [path.name])
    monkeypatch.setattr(crossover_tasks, "read_parallel", lambda *paths: ([path.name] for path in paths))
    for module in (tasks, crossover_tasks):
        monkeypatch.setattr(module, "translate_lines", lambda *arguments: ["output"])
    monkeypatch.setattr(tasks, "multi30k_tokenizer", lambda vocab_size: None)
    tasks.translation_scores(None, experiment.SETTINGS | {"words": [60]})
    monkeypatch.setattr(crossover_tasks, "corpus_bleu", tasks.corpus_bleu)
    corpus = SimpleNamespace(tokenizer=SimpleNamespace(vocab_size=9))
    monkeypatch.setattr(crossover_tasks, "corpus_of", lambda *arguments: corpus)
    crossover_tasks.multi30k({}, is_test=False).score(None, None)
    (reversals, symbols), *others = given
    assert reversals == ["7", "7"] and all(len(each.split()) == 5 for each in symbols)
    assert others == [(["output"], ["val.de"])] * 3


def test_the_learning_rate_with_the_lowest_loss_after_a_third_is_trained_to_the_end(monkeypatch, tmp_path):
    losses = {0.2: [1.0, 4.0, 9.0], 0.5: [2.0, 1.0, 9.0], 1.0: [3.0, 3.0, 1.0], 2.0: [4.0, 2.0, 2.0]}
    settings = experiment.SETTINGS | {"lr_scales": list(losses)}
    updates = experiment.updates_of("reverse", "GRU", settings)
    every = updates // 12
    trained = []

    def train(config, corpus):
        """Has these losses after a sixth, a third and all of the updates."""
        trained.append((config.training.lr_scale, config.training.updates))
        if config.training.updates == updates:
            raise InterruptedError
        curve = zip([2 * every, 4 * every, updates], losses[config.training.lr_scale], strict=True)
        lines = [{"kind": "valid", "update": at, "nll": nll} for at, nll in curve if at <= config.training.updates]
        folder = Path(config.training.directory)
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    monkeypatch.setattr(experiment, "train", train)
    with pytest.raises(InterruptedError):
        experiment.train_and_score("reverse", "GRU", 1, settings, tmp_path)
    assert trained == [*((scale, 4 * every) for scale in losses), (0.5, updates)]


def test_no_learning_rate_is_chosen_by_losses_of_other_settings(monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "scores_of", lambda *_: {})
    settings = experiment.SETTINGS | experiment.QUICK | {"updates": {"reverse": [12] * 4}, "lr_scales": [0.2, 1.0]}
    found = experiment.train_and_score("reverse", "Transformer", 1, settings, tmp_path)
    assert 128 < found["positions"] <= 256  # of an update, which is filled up to 256
    shutil.rmtree(tmp_path / f"reverse-Transformer-1-{found['lr_scale']}")
    with pytest.raises(CheckpointError, match="warmup_steps must be 500"):
        experiment.train_and_score("reverse", "Transformer", 1, settings | {"warmup_steps": 50}, tmp_path)
