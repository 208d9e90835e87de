"""Gradient accumulation: which micro-batches of an update this rank computes, and in which thread.

The resulting gradient is always that of the one batch which all micro-batches make up.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from minitransformer.autograd import Tensor, count_leaf_uses
from minitransformer.backend import get_array_module
from minitransformer.batch import Batch
from minitransformer.config import TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS, Communicator, OverlappedAllReduce
from minitransformer.errors import DataError
from minitransformer.nn import ParameterVector
from minitransformer.optim import LossScale
from minitransformer.training.metrics import Number, is_on_host
from minitransformer.workers import SERIAL, Workers, sum_into_first

ComputeGradient = Callable[..., tuple[Tensor, Tensor]]
"""``(number of the micro-batch in the update, batch, sink of the gradients)`` to (loss, nll)."""


class GradientAccumulator:
    """Threads that take whole micro-batches, ranks that share them, and the loss scale of float16.

    Each rank is given its own micro-batches: numbers rank, rank + size, rank + 2 size... of the update. With
    several ranks and one thread the last backward overlaps with the all-reduce, unless ``overlap`` is False.

    tokens_of_update: (source, target) tokens of an update on all ranks; needed if there are several
    wait: synchronize after every update on a GPU, so that a non-finite one is never applied
    wants_to_stop: asked in each update; the sum of the answers of all ranks is added to ``stop_wishes``

    Raises (`accumulate`): what the communicator raises; (`is_finite`): what `LossScale.adapt` raises.
    """

    def __init__(
        self,
        parameters: ParameterVector,
        *,
        workers: Workers = SERIAL,
        ranks: Communicator = SINGLE_PROCESS,
        scale: LossScale | None = None,
        overlap: bool = True,
        tokens_of_update: Callable[[int], tuple[int, int]] | None = None,
        wait: bool = False,
    ):
        self.parameters, self.workers, self.ranks = parameters, workers, ranks
        self.scale = scale or LossScale()
        self._overlaps = overlap and ranks.overlaps and workers.size == 1
        self._tokens_of_update, self._wait = tokens_of_update, wait
        self.wants_to_stop: Callable[[], bool] = lambda: False
        self.stop_wishes: Number = 0.0

    @property
    def loss_scale(self) -> float:
        """The factor by which the loss is multiplied before backward; `accumulate` takes it out of the gradient."""
        return self.scale.value

    def count_tokens(self, micro_batches: Sequence[Batch], update: int) -> tuple[int, int]:
        """(source, target) tokens of the update, on all ranks.

        Raises:
            DataError: there is no target token.
        """
        if self._tokens_of_update is not None:
            return self._tokens_of_update(update)
        n_src_tokens = sum(batch.n_src_tokens for batch in micro_batches)
        n_tgt_tokens = sum(batch.n_tgt_tokens for batch in micro_batches)
        if n_tgt_tokens == 0:
            raise DataError("train_step: the micro-batches must have at least one target token, got none")
        return n_src_tokens, n_tgt_tokens

    def accumulate(self, micro_batches: Sequence[Batch], compute_gradient: ComputeGradient) -> tuple[Number, Number]:
        """The gradient of all micro-batches, into the model's own vector; returns the sums of their losses and nlls."""
        buffers = self.parameters.gradient_buffers(self.workers.size)
        total = OverlappedAllReduce(buffers[0], self.ranks)
        last = len(micro_batches) - 1 if self._overlaps else None

        def share_of(worker: int) -> tuple[Number, Number]:
            loss = nll = 0.0
            for i in range(worker, len(micro_batches), self.workers.size):
                sink = OverlappingSink(total) if i == last else buffers[worker]
                loss_sum, nll_sum = compute_gradient(self._number(i), micro_batches[i], sink)
                loss, nll = loss + scalar_of(loss_sum), nll + scalar_of(nll_sum)
            return loss, nll

        loss, nll = map(sum, zip(*self.workers.map(share_of), strict=True))
        sum_into_first([buffer.vector for buffer in buffers], self.workers)
        total.finish()
        if self.scale.value != 1.0:
            self.parameters.grad *= 1.0 / self.scale.value
        return self._summed_over_ranks(loss, nll)

    def is_finite(self, loss: Number, gradient_norm: Number) -> bool:
        """Whether the update may be made: loss and gradient are finite, or are on a GPU, which is not waited for."""
        if self.found_inf(loss):
            return self.scale.adapt(gradient_norm)
        if self._wait:
            loss, gradient_norm = float(loss), float(gradient_norm)
        return not is_on_host(gradient_norm) or math.isfinite(loss + gradient_norm)

    def found_inf(self, loss: Number) -> bool:
        """Whether a gradient that is not finite only lowers the loss scale: in float16, if the loss is finite."""
        return self.scale.is_needed and math.isfinite(float(loss))

    def _number(self, i: int) -> int:
        """The number in the update of micro-batch ``i`` of this rank."""
        return self.ranks.rank + i * self.ranks.size

    def _summed_over_ranks(self, loss: Number, nll: Number) -> tuple[Number, Number]:
        if self.ranks.size == 1:
            return loss, nll
        on_host = is_on_host(loss)
        wish = float(self.wants_to_stop())
        if on_host:
            sums = np.array([loss, nll, wish])
        else:
            xp = get_array_module(loss)
            sums = xp.stack([loss, nll, xp.full_like(loss, wish)])
        self.ranks.all_reduce_sum(sums)
        loss, nll, wishes = sums.tolist() if on_host else sums
        self.stop_wishes = self.stop_wishes + wishes
        return loss, nll


class OverlappingSink:
    """Passes gradients to an `OverlappedAllReduce`, and before backward how many each leaf will receive."""

    def __init__(self, total: OverlappedAllReduce):
        self._total, self.accumulate = total, total.accumulate

    def prepare_for_backward(self, tensor: Tensor) -> None:
        self._total.prepare_for_backward(count_leaf_uses(tensor))


def threads_of_rank(config: TrainingConfig, n_ranks: int) -> int:
    """The threads that training may use; 0: as many as there are. By default one, if several ranks share the cores of a
    machine."""
    return config.threads or (0 if n_ranks == 1 else 1)


def scalar_of(tensor: Tensor) -> Number:
    """The value of a tensor of shape (); on a GPU it stays there."""
    return tensor.item() if get_array_module(tensor.data) is np else tensor.data
