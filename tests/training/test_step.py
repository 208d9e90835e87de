"""The update on one page: it is the loop written out here, to the last bit."""

import numpy as np
import pytest
from small_models import random_batch, small_model

from minitransformer.config import TrainingConfig
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate
from minitransformer.training import train_step

OPTIONS = dict(dtype="float32", p_drop=0.2, p_drop_attention=0.1, p_drop_ffn=0.1)


def plain_updates(model, batches, config, n_updates: int) -> list[float]:
    """Zero the gradients; for each micro-batch loss and backward; clip; Adam at this update's rate."""
    adam, losses = Adam(model.parameters), []
    for update in range(1, n_updates + 1):
        n_tokens = sum(batch.n_tgt_tokens for batch in batches)
        model.parameters.zero_grad()
        total = 0.0
        for number, batch in enumerate(batches):
            loss, _ = model.loss(batch, DropoutMasks(config.seed, update, number))
            loss.backward(1.0 / n_tokens)
            total += loss.item()
        clip_gradient_norm(model.parameters.grad, config.clip_norm)
        adam.step(learning_rate(update, model.config.d_model, config.warmup_steps, config.lr_scale))
        losses.append(total / n_tokens)
    return losses


@pytest.mark.parametrize("kernel_mode", ["simple", "fast"])
def test_an_update_is_the_plain_loop_bit_for_bit(kernel_mode):
    config, runs = TrainingConfig(seed=3, warmup_steps=10, clip_norm=0.7), []
    for plain in (True, False):
        rng = np.random.default_rng(4)
        model = small_model(rng, kernel_mode=kernel_mode, **OPTIONS)
        batches = [random_batch(rng), random_batch(rng, (9, 1), (4, 8))]
        if plain:
            losses = plain_updates(model, batches, config, 20)
        else:
            adam = Adam(model.parameters)
            losses = [train_step(model, adam, batches, update=u, config=config).loss for u in range(1, 21)]
        runs.append((losses, model.parameters.data))
    assert runs[0][0] == runs[1][0] and runs[0][0][-1] < runs[0][0][0]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
