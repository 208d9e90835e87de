"""Gradient accumulation: which micro-batches of an update this rank computes, and in which thread.

The resulting gradient is always that of the single batch that all micro-batches make up.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from minitransformer.autograd import Accumulate, Tensor
from minitransformer.batch import Batch
from minitransformer.config import TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS, Communicator
from minitransformer.errors import DataError
from minitransformer.nn import ParameterVector
from minitransformer.optim import LossScale
from minitransformer.workers import SERIAL, Workers, sum_into_first

ComputeGradient = Callable[[int, Batch, Accumulate], tuple[Tensor, Tensor]]
"""``(number of the micro-batch in the update, batch, what backward calls with its gradients)`` to (loss, nll)."""


class GradientAccumulator:
    """Threads that take whole micro-batches, ranks that share them, and the loss scale of float16.

    Each rank is given its own micro-batches: numbers rank, rank + size, rank + 2 size... of the update. When all are
    done, the gradient vectors of the ranks are summed.

    scale: what the loss must be multiplied by before backward; `accumulate` divides the gradient by it
    tokens_of_update: target tokens of an update on all ranks; needed if there are several
    wants_to_stop: called in each update; ``stop_wishes`` is the number of ranks where it returned True

    Raises (`accumulate`): what the communicator raises; (`is_finite`): what `LossScale.adapt` raises.
    """

    def __init__(
        self,
        parameters: ParameterVector,
        *,
        workers: Workers = SERIAL,
        ranks: Communicator = SINGLE_PROCESS,
        scale: LossScale | None = None,
        tokens_of_update: Callable[[int], int] | None = None,
    ):
        self.parameters, self.workers, self.ranks = parameters, workers, ranks
        self.scale = scale or LossScale()
        self._tokens_of_update = tokens_of_update
        self.wants_to_stop: Callable[[], bool] = lambda: False
        self.stop_wishes = 0.0

    def count_tokens(self, micro_batches: Sequence[Batch], update: int) -> int:
        """The target tokens of the update, on all ranks.

        Raises:
            DataError: there is none.
        """
        if self._tokens_of_update is not None:
            return self._tokens_of_update(update)
        n_tgt_tokens = sum(batch.n_tgt_tokens for batch in micro_batches)
        if n_tgt_tokens == 0:
            raise DataError("train_step: the micro-batches must have at least one target token, got none")
        return n_tgt_tokens

    def accumulate(self, micro_batches: Sequence[Batch], compute_gradient: ComputeGradient) -> tuple[float, float]:
        """Sum the gradients of all micro-batches in the model's vector; return the sums of their losses and nlls."""
        buffers = self.parameters.gradient_buffers(self.workers.size)

        def share_of(worker: int) -> list[tuple[Tensor, Tensor]]:
            results = []
            for i in range(worker, len(micro_batches), self.workers.size):
                number = self.ranks.rank + i * self.ranks.size
                results.append(compute_gradient(number, micro_batches[i], buffers[worker].accumulate))
            return results

        shares = self.workers.map(share_of)
        sum_into_first([buffer.vector for buffer in buffers])
        self.ranks.all_reduce_sum(self.parameters.grad)
        if self.scale.value != 1.0:
            self.parameters.grad *= 1.0 / self.scale.value
        # Read at the end: on a GPU each figure waits until the device has computed it.
        losses = np.sum([[loss.item(), nll.item()] for share in shares for loss, nll in share], axis=0)
        sums = np.append(losses, self.wants_to_stop())
        self.ranks.all_reduce_sum(sums)
        loss, nll, self.stop_wishes = sums.tolist()
        return loss, nll

    def is_finite(self, loss: float, gradient_norm: float) -> bool:
        """Whether the update may be made: loss and gradient are finite."""
        return self.scale.adapt(gradient_norm) if self.found_inf(loss) else math.isfinite(loss + gradient_norm)

    def restore_scale(self, stored: dict) -> None:
        """Continue with the loss scale of a checkpoint, if both that run and this one need one."""
        scale = LossScale(**stored)
        if self.scale.is_needed and scale.is_needed:
            self.scale = scale

    def found_inf(self, loss: float) -> bool:
        """Whether a non-finite gradient only lowers the loss scale: in float16, if the loss is finite."""
        return self.scale.is_needed and math.isfinite(loss)


def threads_of_rank(config: TrainingConfig, n_ranks: int) -> int:
    """The threads that training may use; 0: as many as there are. The default is one if several ranks share the cores
    of a machine."""
    return config.threads or (0 if n_ranks == 1 else 1)
