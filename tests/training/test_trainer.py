"""A training run: what it saves, when it stops, what it refuses."""

import gc
import os
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from extras import need
from systems import needs
from tiny_run import (
    MODEL,
    assert_same_state,
    at_update,
    checkpoint_of,
    metrics_of,
    tiny_config,
    tiny_corpus,
    tiny_text,
    tiny_trainer,
)

from minitransformer.checkpoints import average_checkpoints, load_checkpoint
from minitransformer.config import TranslationConfig
from minitransformer.errors import CheckpointError, ConfigError, TrainingError
from minitransformer.text import Tokenizer
from minitransformer.training import Corpus, Trainer, read_metrics, trainer, validation
from minitransformer.training.micro_batches import MicroBatches
from minitransformer.training.signals import StopRequest
from minitransformer.training.validation import Validation

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_run_after_the_update_and_restores_the_handlers(tmp_path, monkeypatch, number):
    before = [signal.getsignal(each) for each in SIGNALS]
    at_update(monkeypatch, 5, lambda model: signal.raise_signal(number))
    outcome = tiny_trainer(tmp_path, updates=30).run()
    assert (outcome.update, outcome.exit_status) == (5, 128 + number)
    assert load_checkpoint(checkpoint_of(tmp_path, 5)).update == 5
    assert [signal.getsignal(each) for each in SIGNALS] == before


@needs("POSIX")
def test_a_hang_up_stays_ignored_as_under_nohup_and_of_further_signals_ctrl_c_alone_ends_the_run_at_once():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.signal is None
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # a fault: schedulers send it twice, and nothing was saved
            assert stop.signal == signal.SIGTERM
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_metrics_hold_every_line_once_after_a_resume(tmp_path):
    tiny_trainer(tmp_path, updates=30, log_every=3).run()
    metrics, whole = tmp_path / "metrics.jsonl", metrics_of(tmp_path)
    for update in (24, 28, 30):  # as if killed in the middle of a line, of an interval, of an epoch
        checkpoint_of(tmp_path, update).unlink()
    metrics.write_bytes(metrics.read_bytes()[:-7])
    tiny_trainer(tmp_path, updates=30, log_every=3).run()
    assert metrics_of(tmp_path) == whole
    assert sum(line["kind"] == "valid" for line in whole) == 3


def test_a_validation_that_a_signal_prevented_is_done_on_resume(tmp_path, monkeypatch):
    at_update(monkeypatch, 10, lambda model: signal.raise_signal(signal.SIGINT))
    tiny_trainer(tmp_path / "stopped", updates=20).run()
    tiny_trainer(tmp_path / "stopped", updates=20).run()
    monkeypatch.undo()
    tiny_trainer(tmp_path / "whole", updates=20).run()
    assert metrics_of(tmp_path / "stopped") == metrics_of(tmp_path / "whole")


def test_a_checkpoint_is_written_before_each_validation(tmp_path, monkeypatch):
    seen, measure = [], Validation.measure

    def look(validation, model):
        seen.append(max(path.name for path in (tmp_path / "checkpoints").iterdir()))
        return measure(validation, model)

    monkeypatch.setattr(Validation, "measure", look)
    tiny_trainer(tmp_path, updates=15, save_every=0).run()
    assert seen == [checkpoint_of(tmp_path, 10).name, checkpoint_of(tmp_path, 15).name]


def test_checkpoints_are_also_written_by_the_clock(tmp_path, monkeypatch):
    """Each minute, where an update takes 25 seconds; and the last one."""
    run = tiny_trainer(tmp_path, updates=8, save_every=0, save_minutes=1.0)
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: 25.0 * run.update))
    run.run()
    assert [path.name for path in run.folder.paths()] == [checkpoint_of(tmp_path, n).name for n in (3, 6, 8)]


def test_bleu_without_a_validation_to_measure_it_in_is_refused(tmp_path):
    corpus = tiny_corpus()
    for changes, given, words in (
        ({}, Corpus(corpus.train), "got true and no validation text; name data.valid_src"),
        ({"validate_every": 0}, corpus, "got true and training.validate_every = 0; set it above 0"),
    ):
        with pytest.raises(ConfigError, match=f"training.validate_bleu must be false without validation, {words}"):
            tiny_trainer(tmp_path, given, validate_bleu=True, **changes)


def test_bleu_of_a_language_model_is_refused_before_it_is_trained(tmp_path):
    lines = ["a b", "b a"]
    corpus = Corpus.from_lines(Tokenizer.train(lines, 30, mode="words"), (lines, lines), (lines, lines))
    with pytest.raises(ConfigError, match="training.validate_bleu must be false for a language model"):
        tiny_trainer(tmp_path, corpus, model={"kind": "language_model", "vocab_size": 0}, validate_bleu=True)


def test_sentences_left_out_are_counted_and_reported(tmp_path, capsys):
    lines = ["a", "a b", "a b c", ""]
    tokenizer = Tokenizer.train(lines * 3, 30, mode="words")
    corpus = Corpus.from_lines(tokenizer, (lines, lines), max_length=3)
    assert corpus.longest() == 3
    tiny_trainer(tmp_path, corpus, model={"vocab_size": 0})
    words = "left out 1 pairs with an empty side and 1 longer than 3 tokens, end mark included"
    assert words in capsys.readouterr().err


def test_a_validation_without_bleu_has_sequences_of_any_length(tmp_path):
    longer = TranslationConfig.__dataclass_fields__["max_input_length"].metadata["high"] + 1
    run = tiny_trainer(tmp_path, Corpus(tiny_corpus().train, ([[4]], [[4] * longer])))
    assert [batch.tgt_out.shape for batch in run.validation.batches] == [(1, longer + 1)]


def test_settings_that_cannot_work_are_refused_before_training(tmp_path):
    for changes, error, words in (
        ({"model": {"vocab_size": 0}}, ConfigError, "model.vocab_size must be given"),
        ({"model": {"positions": "learned", "max_positions": 8}}, ConfigError, "model.max_positions must be at least"),
    ):
        with pytest.raises(error, match=words):
            tiny_trainer(tmp_path, **changes)
        with pytest.raises(error, match=words):  # where the validation alone has a sentence of 8 and its end mark
            tiny_trainer(tmp_path, Corpus(([[4]], [[5]]), ([[4] * 8], [[5]])), **changes)
    with pytest.raises(ConfigError, match="data.train_src must be a path"):
        Trainer(tiny_config(tmp_path), progress=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="training.directory must be a folder"):
        tiny_trainer(tmp_path / "file")


def test_a_run_from_text_files_has_its_vocabulary_and_reports_bleu(tmp_path, monkeypatch):
    need("sacrebleu")
    searches, translate = [], validation.translate_lines
    monkeypatch.setattr(validation, "translate_lines", lambda *given: searches.append(given[3]) or translate(*given))
    changes = {"data": tiny_text(tmp_path), "model": {"vocab_size": 0}, "updates": 2, "validate_every": 2}
    changes["validate_bleu"] = True
    config = tiny_config(tmp_path / "run", **changes)
    config = replace(config, translation=TranslationConfig(beam_size=3, max_input_length=1))
    run = Trainer(config, progress=False)
    run.run()
    (valid,) = (line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "valid")
    assert 0 <= valid["bleu"] <= 100 and "nrefs:1" in valid["signature"]
    longest = max(len(ids) + 1 for side in run.corpus.valid for ids in side)
    assert searches == [TranslationConfig(beam_size=1, max_input_length=longest)]  # greedily, and every line
    size = Tokenizer.load(tmp_path / "bpe.txt").vocab_size
    assert run.config.model.vocab_size == size
    with pytest.raises(ConfigError, match=f"model.vocab_size must be the tokenizer's {size}"):
        Trainer(tiny_config(tmp_path / "other", **changes | {"model": {"vocab_size": MODEL.vocab_size}}))


def test_parameters_that_are_not_finite_are_never_saved(tmp_path, monkeypatch):
    at_update(monkeypatch, 8, lambda model: model.parameters.data.fill(np.nan), after=True)
    with pytest.raises(TrainingError, match="parameters must be finite to be saved, .* after update 8"):
        tiny_trainer(tmp_path, updates=8, validate_every=0).run()
    assert not checkpoint_of(tmp_path, 8).exists() and checkpoint_of(tmp_path, 4).exists()


def test_the_ranks_share_the_micro_batches_of_each_update(tmp_path):
    stream = tiny_trainer(tmp_path).batches.stream
    for update in (1, 2, 6):
        shares = [MicroBatches(stream, 4, rank, 3) for rank in range(3)]
        rows = [[batch.rows.tolist() for batch in share.of_rank(update)] for share in shares]
        wanted = [stream.rows(4 * (update - 1) + number).tolist() for number in range(4)]
        assert rows == [[wanted[0], wanted[3]], [wanted[1]], [wanted[2]]]
        n_tokens = sum(stream.batch(4 * (update - 1) + number).n_tgt_tokens for number in range(4))
        assert {share.n_tgt_tokens(update) for share in shares} == {n_tokens}


def test_training_does_not_resume_from_a_mean_of_checkpoints(tmp_path):
    tiny_trainer(tmp_path / "run", updates=4).run()
    average_checkpoints([checkpoint_of(tmp_path / "run", 4)]).save(checkpoint_of(tmp_path / "mean", 4))
    with pytest.raises(CheckpointError, match="must hold Adam's state to resume from it"):
        tiny_trainer(tmp_path / "mean", updates=4)


def files_and_threads(at_most):
    """The number of open files and of threads, after waiting for threads that are just ending."""
    deadline = time.monotonic() + 10
    while threading.active_count() > at_most and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@needs("/proc")
def test_a_run_leaves_no_file_open_and_no_thread(tmp_path):
    found = []
    for number in range(5):
        tiny_trainer(tmp_path / str(number), updates=12, threads=2, log_every=1, validate_every=2, save_every=1).run()
        gc.collect()
        found.append(files_and_threads(at_most=found[-1][1] if found else threading.active_count()))
    files, threads = zip(*found[1:], strict=True)  # the first makes what lasts
    assert max(files) == files[0] and max(threads) == threads[0]


def test_callbacks_see_every_update_and_add_to_every_validation(tmp_path):
    seen = []

    def on_validation(trainer, metrics):
        metrics["norm"] = np.linalg.norm(trainer.model.parameters.data)  # a number of NumPy
        seen.append(("valid", trainer.update, metrics["nll"]))

    def on_update(trainer, result):
        seen.append(("train", trainer.update, result.nll))

    config = tiny_config(tmp_path, updates=4, validate_every=2, log_every=1)
    Trainer(config, tiny_corpus(), progress=False, on_update=on_update, on_validation=on_validation).run()
    written = metrics_of(tmp_path)
    assert seen == [(line["kind"], line["update"], line["nll"]) for line in written]
    assert all((line["kind"] == "valid") == ("norm" in line) for line in written)


def test_a_callback_may_stop_the_run_and_a_new_run_goes_on(tmp_path):
    def stop(trainer, result):
        trainer.should_stop = trainer.update == 3

    run = Trainer(tiny_config(tmp_path / "run", updates=6), tiny_corpus(), progress=False, on_update=stop)
    assert run.run().update == 3
    seconds = run.recorder.seconds()
    assert seconds == run.recorder.seconds() > 0  # the clock stands while nothing runs
    assert run.run().update == 3 and run.recorder.seconds() > seconds
    assert load_checkpoint(checkpoint_of(tmp_path / "run", 3)).update == 3
    stored, resumed = checkpoint_of(tmp_path / "run", 3), tiny_trainer(tmp_path / "run", updates=6)
    assert resumed.recorder.seconds() == load_checkpoint(stored).progress["seconds"] > 0
    assert resumed.run().update == 6
    tiny_trainer(tmp_path / "whole", updates=6).run()
    assert_same_state(tmp_path / "run", tmp_path / "whole", 6)
