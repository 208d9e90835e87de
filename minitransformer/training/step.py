"""One update of the parameters: the whole project in fifty lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minitransformer import kernels
from minitransformer.autograd import Tensor, count_leaf_uses, no_grad
from minitransformer.backend import Array, get_array_module
from minitransformer.config import TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS, Communicator, OverlappedAllReduce
from minitransformer.errors import DataError
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, LossScale, clip_gradient_norm, learning_rate
from minitransformer.text import Batch
from minitransformer.workers import SERIAL, Workers, sum_into_first


@dataclass(frozen=True)
class StepResult:
    """What an update saw. ``loss`` is label-smoothed, ``nll`` is not: exp(nll) is the perplexity. Nats per token.

    On a GPU ``loss``, ``nll`` and ``gradient_norm`` are numbers that stay there until somebody ``read``s them.
    """

    loss: float | Array
    nll: float | Array
    n_src_tokens: int
    n_tgt_tokens: int
    gradient_norm: float | Array
    learning_rate: float

    def read(self) -> StepResult:
        """The same with Python's numbers; waits until the device has computed them."""
        names = ("loss", "nll", "gradient_norm")
        return replace(self, **{name: float(getattr(self, name)) for name in names})


def train_step(
    model: Transformer,
    optimizer: Adam,
    micro_batches: Sequence[Batch],
    *,
    update: int,
    config: TrainingConfig,
    workers: Workers = SERIAL,
    loss_scale: LossScale | None = None,
    ranks: Communicator = SINGLE_PROCESS,
    n_tokens: tuple[int, int] | None = None,
) -> StepResult:
    """Update number ``update`` (from 1): mean gradient over all target tokens of all micro-batches, then Adam.

    loss = sum over micro-batches / number of target tokens in all of them, so that k unequal micro-batches
    give the gradient of the one batch that they make up. Workers take whole micro-batches, side by side.
    An update that ``loss_scale`` does not accept changes no parameter and reports a gradient norm of 0.

    ranks: each is given its own micro-batches, of all in the update every ``ranks.size``-th from its number on
    n_tokens: (source, target) tokens of the update on all ranks; left out, those of ``micro_batches``
    """
    n_src_tokens, n_tgt_tokens = n_tokens or (
        sum(batch.n_src_tokens for batch in micro_batches),
        sum(batch.n_tgt_tokens for batch in micro_batches),
    )
    if n_tgt_tokens == 0:
        raise DataError("train_step: the micro-batches must have at least one target token, got none")
    scale = loss_scale or LossScale()
    gradients = model.parameters.zeroed_gradients(workers.size)
    total = OverlappedAllReduce(gradients[0], ranks)
    last = len(micro_batches) - 1 if config.overlap and ranks.size > 1 and workers.size == 1 else None

    def forward_and_backward(worker: int) -> tuple[float, float]:
        loss = nll = 0.0
        for i in range(worker, len(micro_batches), workers.size):
            batch, dropout = micro_batches[i], DropoutMasks(config.seed, update, ranks.rank + i * ranks.size)
            loss_sum, nll_sum = model.loss(batch.src, batch.tgt_in, batch.tgt_out, dropout)
            into = total.prepare_for_backward(count_leaf_uses(loss_sum)) if i == last else gradients[worker]
            loss_sum.backward(scale.value / n_tgt_tokens, into=into)
            loss += _number(loss_sum)
            nll += _number(nll_sum)
        return loss, nll

    losses = _added(workers.map(forward_and_backward))
    sum_into_first([each.vector for each in gradients], workers)
    total.finish()
    ranks.all_reduce_sum(losses)
    loss, nll = _numbers(losses / n_tgt_tokens)
    rate = learning_rate(update, model.config.d_model, config.warmup_steps, config.lr_scale)
    with kernels.mode(model.config.kernels):
        norm = _adapt(optimizer, model.parameters.grad, scale, config.clip_norm, rate, workers)
    return StepResult(loss, nll, n_src_tokens, n_tgt_tokens, norm, rate)


def _adapt(
    optimizer: Adam, grad: Array, scale: LossScale, clip_norm: float, rate: float, workers: Workers
) -> float | Array:
    """Unscale, clip, and let the optimizer make its step; the norm of the gradient, 0 if it was not accepted."""
    if scale.value != 1.0:
        grad *= 1.0 / scale.value
    norm = clip_gradient_norm(grad, clip_norm)
    if not scale.accepts(norm):
        return 0.0
    optimizer.step(rate, workers)
    return norm


def _added(sums: Sequence[tuple[float | Array, float | Array]]) -> Array:
    """(loss, nll) of all workers, added up: (2,), on the device where they are."""
    loss, nll = (sum(each) for each in zip(*sums, strict=True))
    return np.array([loss, nll]) if isinstance(loss, float) else get_array_module(loss).stack([loss, nll])


def _numbers(losses: Array) -> Sequence[float | Array]:
    """The two numbers of ``losses``; on a GPU they stay there."""
    return losses.tolist() if isinstance(losses, np.ndarray) else losses


def _number(tensor: Tensor) -> float | Array:
    """The one number of a tensor; on a GPU it stays there."""
    return tensor.item() if get_array_module(tensor.data) is np else tensor.data


def evaluate_loss(model: Transformer, batches: Iterable[Batch]) -> tuple[float, float]:
    """(label-smoothed loss, negative log-likelihood) in nats per target token, without dropout."""
    loss = nll = 0.0
    n_tgt_tokens = 0
    with no_grad():
        for batch in batches:
            loss_sum, nll_sum = model.loss(batch.src, batch.tgt_in, batch.tgt_out)
            loss += _number(loss_sum)
            nll += _number(nll_sum)
            n_tgt_tokens += batch.n_tgt_tokens
    if n_tgt_tokens == 0:
        raise DataError("evaluate_loss: the batches must have at least one target token, got none")
    return float(loss) / n_tgt_tokens, float(nll) / n_tgt_tokens
