"""The metrics of a run, compared with slow sums over single sentences and updates."""

import numpy as np
import pytest
from small_models import random_batch, small_model
from tiny_run import tiny_config, tiny_corpus, tiny_trainer

from minitransformer.errors import DataError
from minitransformer.text import pad_batch
from minitransformer.training import StepResult, Trainer, evaluate_loss, perplexity, read_metrics
from minitransformer.training.metrics import Meter


def test_perplexity_is_exp_of_the_unsmoothed_nll_per_target_token(tmp_path):
    no_dropout = {"p_drop": 0.0, "p_drop_attention": 0.0, "p_drop_ffn": 0.0, "label_smoothing": 0.3, "dtype": "float64"}
    run = tiny_trainer(tmp_path, model=no_dropout, updates=1, log_every=1, validate_every=1)
    src, tgt = run.corpus.train
    rows = np.concatenate([run.batches.stream.batch(number).rows for number in (0, 1)])  # the micro-batches of update 1
    before = slow_losses(run.model, [src[row] for row in rows], [tgt[row] for row in rows])
    run.run()
    after = slow_losses(run.model, *run.corpus.valid)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    for kind, (smoothed, nll) in (("train", before), ("valid", after)):
        line = next(line for line in lines if line["kind"] == kind)
        assert line["loss"] == pytest.approx(smoothed, rel=1e-9)
        assert line["nll"] == pytest.approx(nll, rel=1e-9)
        assert line["ppl"] == pytest.approx(np.exp(nll), rel=1e-9)
        assert abs(smoothed - nll) > 1e-3


def slow_losses(model, src, tgt) -> tuple[float, float]:
    """(label-smoothed loss, -log p) per target token, one sentence at a time, from the logits."""
    sums, eps = np.zeros(2), model.config.label_smoothing
    for one_src, one_tgt in zip(src, tgt, strict=True):
        batch = pad_batch([one_src], [one_tgt])
        logits = model(batch.src, batch.tgt_in).data[0]
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        nll = -log_p[np.arange(len(log_p)), batch.tgt_out[0]].sum()
        sums += (1 - eps) * nll - eps * log_p.mean(-1).sum(), nll
    return tuple(sums / sum(len(ids) + 1 for ids in tgt))


def test_a_line_is_the_token_weighted_mean_of_its_updates(tmp_path):
    run = tiny_trainer(tmp_path / "each", updates=20, log_every=1)
    run.run()
    tiny_trainer(tmp_path / "five", updates=20, log_every=5).run()
    each, five = (
        [line for line in read_metrics(tmp_path / name / "metrics.jsonl") if line["kind"] == "train"]
        for name in ("each", "five")
    )
    assert [line["update"] for line in five] == [5, 10, 15, 20]
    for line in five:
        last = line["update"]
        tokens = [run.batches.n_tgt_tokens(update) for update in range(last - 4, last + 1)]
        losses = [other["loss"] for other in each[last - 5 : last]]
        assert line["loss"] == pytest.approx(np.average(losses, weights=tokens), rel=1e-12)


def test_means_are_of_tokens_rates_of_time_and_norms_of_updates():
    """48 tokens in 2 seconds; the third update was not made, for its norm, which counts 0."""
    meter = Meter()
    for (*figures, is_finite), seconds in (
        ((1.0, 2.0, 30, 4.0, 0.1, True), 1.5),
        ((3.0, 6.0, 10, 5.0, 0.1, True), 0.25),
        ((2.0, 4.0, 8, np.inf, 0.1, False), 0.25),
    ):
        meter.add(StepResult(*figures, is_finite), seconds)
    loss, nll = (30 + 30 + 16) / 48, (60 + 60 + 32) / 48
    means = {"loss": loss, "nll": nll, "ppl": np.exp(nll), "tokens_per_second": 24.0, "gradient_norm": 3.0}
    assert meter.means() == pytest.approx(means)
    meter.add(StepResult(1e6, 1e6, 100, 1.0, 0.1), 1.0)
    assert meter.means()["ppl"] == np.inf
    assert perplexity(709.9) == np.inf and perplexity(700.0) == np.exp(700.0)  # e^709.8 is beyond float64


def test_validation_keeps_nothing_for_a_backward_pass(rng, monkeypatch):
    model, found = small_model(rng), []
    loss = model.loss
    monkeypatch.setattr(model, "loss", lambda batch: found.append(loss(batch)) or found[-1])
    evaluate_loss(model, [random_batch(rng)])
    assert [each.node for each in found[0]] == [None, None]


def test_only_an_unfinished_last_line_of_metrics_is_ignored(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "update": 1}\n{"kind": "train", "upd')
    assert [line["update"] for line in read_metrics(path)] == [1]
    for line in ('{"kind": "train", "upd', "[" * 100_000, '{"kind": "train", "update": true}', "\xff"):
        path.write_bytes(line.encode("latin-1") + b'\n{"kind": "train", "update": 2}\n')
        with pytest.raises(DataError, match=r"metrics\.jsonl:1 must be a JSON object"):
            read_metrics(path)


def test_a_run_resumes_after_a_line_to_which_a_program_has_added_much(tmp_path):
    def on_validation(trainer, metrics):
        metrics["samples"] = ["wie geht es dir"] * 10_000

    for updates in (10, 20):
        config = tiny_config(tmp_path, updates=updates)
        Trainer(config, tiny_corpus(), progress=False, on_validation=on_validation).run()
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if line["kind"] == "valid"]
    assert [(line["update"], len(line["samples"])) for line in lines] == [(10, 10_000), (20, 10_000)]
