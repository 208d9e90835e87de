"""The update on one page: it is the loop written out here, to the last bit, and a run is that loop over its batches."""

from collections.abc import Callable

import numpy as np
import pytest
from small_models import random_batch, small_model
from tiny_run import tiny_config, tiny_corpus

from minitransformer.config import TrainingConfig
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate
from minitransformer.text import Batch, BatchStream
from minitransformer.training import Trainer, read_metrics, train_step

OPTIONS = dict(dtype="float32", p_drop=0.2, p_drop_attention=0.1, p_drop_ffn=0.1)


def plain_updates(model, adam, batches_of: Callable[[int], list[Batch]], config, n_updates: int) -> list[tuple]:
    """Zero the gradients; for each micro-batch loss and backward; clip; Adam at this update's rate."""
    results = []
    for update in range(1, n_updates + 1):
        batches = batches_of(update)
        n_tokens = sum(batch.n_tgt_tokens for batch in batches)
        model.parameters.zero_grad()
        sums = np.zeros(2)
        for number, batch in enumerate(batches):
            loss, nll = model.loss(batch, DropoutMasks(config.seed, update, number))
            loss.backward(1.0 / n_tokens)
            sums += loss.item(), nll.item()
        norm = clip_gradient_norm(model.parameters.grad, config.clip_norm)
        rate = learning_rate(update, model.config.d_model, config.warmup_steps, config.lr_scale)
        adam.step(rate)
        results.append((*(sums / n_tokens), norm, rate))
    return results


@pytest.mark.parametrize("kernel_mode", ["simple", "fast"])
def test_an_update_is_the_plain_loop_bit_for_bit(kernel_mode):
    config, runs = TrainingConfig(seed=3, warmup_steps=10, clip_norm=0.7), []
    for plain in (True, False):
        rng = np.random.default_rng(4)
        model = small_model(rng, kernel_mode=kernel_mode, **OPTIONS)
        batches, adam = [random_batch(rng), random_batch(rng, (9, 1), (4, 8))], Adam(model.parameters)
        if plain:
            results = plain_updates(model, adam, lambda _, batches=batches: batches, config, 20)
        else:
            steps = (train_step(model, adam, batches, update=u, config=config) for u in range(1, 21))
            results = [(step.loss, step.nll, step.gradient_norm, step.learning_rate) for step in steps]
        runs.append((results, model.parameters.data))
    assert runs[0][0] == runs[1][0] and runs[0][0][-1][0] < runs[0][0][0][0]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])


def test_a_run_is_the_plain_loop_over_the_batches_of_its_seed(tmp_path):
    """Several epochs; seed, Adam and schedule are none of the defaults."""
    settings = dict(seed=5, beta1=0.8, beta2=0.9, eps=1e-3, clip_norm=0.5, lr_scale=0.6, warmup_steps=5)
    config, corpus = tiny_config(tmp_path, updates=13, log_every=1, threads=1, **settings), tiny_corpus()
    run = Trainer(config, corpus, progress=False)
    run.run()
    model = Transformer(config.model, seed=5)
    stream = BatchStream(*corpus.train, src_tokens=64, tgt_tokens=64, seed=5)
    numbers = {update: (2 * update - 2, 2 * update - 1) for update in range(1, 14)}
    batches = {update: list(map(stream.batch, pair)) for update, pair in numbers.items()}
    adam = Adam(model.parameters, 0.8, 0.9, 1e-3)
    expected = plain_updates(model, adam, batches.get, config.training, 13)
    np.testing.assert_array_equal(run.model.parameters.data, model.parameters.data)
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if line["kind"] == "train"]
    keys = ("loss", "nll", "gradient_norm", "learning_rate")
    np.testing.assert_allclose([[line[key] for key in keys] for line in lines], expected, rtol=1e-12)
    epochs = [1 + first // stream.batches_per_epoch for first, _ in numbers.values()]
    assert [line["epoch"] for line in lines] == epochs and max(epochs) > 1
    shapes = [(*batch.src.shape, batch.tgt_in.shape[1]) for pair in batches.values() for batch in pair]
    assert list(run.batches.shapes(13)) == shapes  # of which the FLOPs are counted
