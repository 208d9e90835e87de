"""One update of the parameters: the whole project in forty lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from minitransformer.autograd import no_grad, uses_of_leaves
from minitransformer.config import TrainingConfig
from minitransformer.distributed import ALONE, ONE_RANK, Communicator, GradientSum, Workers, add_up
from minitransformer.errors import DataError
from minitransformer.nn import Dropout, Transformer
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate
from minitransformer.text import Batch


@dataclass(frozen=True)
class StepResult:
    """What an update saw. ``loss`` is label-smoothed, ``nll`` is not: exp(nll) is the perplexity. Nats per token."""

    loss: float
    nll: float
    n_src_tokens: int
    n_tgt_tokens: int
    gradient_norm: float
    learning_rate: float


def train_step(
    model: Transformer,
    optimizer: Adam,
    micro_batches: Sequence[Batch],
    *,
    update: int,
    config: TrainingConfig,
    workers: Workers = ALONE,
    ranks: Communicator = ONE_RANK,
    n_tokens: tuple[int, int] | None = None,
) -> StepResult:
    """Update number ``update`` (from 1): mean gradient over all target tokens of all micro-batches, then Adam.

    loss = sum over micro-batches / number of target tokens in all of them, so that k unequal micro-batches
    give the gradient of the one batch that they make up. Workers take whole micro-batches, side by side.

    ranks: each is given its own micro-batches, of all in the update every ``ranks.size``-th from its number on
    n_tokens: (source, target) tokens of the update on all ranks; left out, those of ``micro_batches``
    """
    n_src_tokens, n_tgt_tokens = n_tokens or (
        sum(batch.n_src_tokens for batch in micro_batches),
        sum(batch.n_tgt_tokens for batch in micro_batches),
    )
    if n_tgt_tokens == 0:
        raise DataError("train_step: the micro-batches must have at least one target token, got none")
    gradients = model.parameters.zeroed_gradients(workers.size)
    total = GradientSum(gradients[0], ranks)
    last = len(micro_batches) - 1 if config.overlap and ranks.size > 1 and workers.size == 1 else None

    def forward_and_backward(worker: int) -> tuple[float, float]:
        loss = nll = 0.0
        for i in range(worker, len(micro_batches), workers.size):
            batch, dropout = micro_batches[i], Dropout(config.seed, update, ranks.rank + i * ranks.size)
            loss_sum, nll_sum = model.loss(batch.src, batch.tgt_in, batch.tgt_out, dropout)
            into = total.expect(uses_of_leaves(loss_sum)) if i == last else gradients[worker]
            loss_sum.backward(1.0 / n_tgt_tokens, into=into)
            loss += loss_sum.item()
            nll += nll_sum.item()
        return loss, nll

    losses = np.array([sum(sums) for sums in zip(*workers.map(forward_and_backward), strict=True)])
    add_up([each.vector for each in gradients], workers)
    total.finish()
    ranks.all_reduce_sum(losses)
    loss, nll = (losses / n_tgt_tokens).tolist()
    norm = clip_gradient_norm(model.parameters.grad, config.clip_norm)
    rate = learning_rate(update, model.config.d_model, config.warmup_steps, config.lr_scale)
    optimizer.step(rate, workers)
    return StepResult(loss, nll, n_src_tokens, n_tgt_tokens, norm, rate)


def evaluate_loss(model: Transformer, batches: Iterable[Batch]) -> tuple[float, float]:
    """(label-smoothed loss, negative log-likelihood) in nats per target token, without dropout."""
    loss = nll = 0.0
    n_tgt_tokens = 0
    with no_grad():
        for batch in batches:
            loss_sum, nll_sum = model.loss(batch.src, batch.tgt_in, batch.tgt_out)
            loss += loss_sum.item()
            nll += nll_sum.item()
            n_tgt_tokens += batch.n_tgt_tokens
    if n_tgt_tokens == 0:
        raise DataError("evaluate_loss: the batches must have at least one target token, got none")
    return loss / n_tgt_tokens, nll / n_tgt_tokens
