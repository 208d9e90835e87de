"""One update of the parameters, on one page: every training run uses it."""

from collections.abc import Sequence

from minitransformer.autograd import Accumulate, Tensor
from minitransformer.batch import Batch
from minitransformer.config import TrainingConfig
from minitransformer.models import Model
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, clip_gradient_norm, scheduled_rate
from minitransformer.training.accumulation import GradientAccumulator
from minitransformer.training.metrics import StepResult


def train_step(
    model: Model,
    optimizer: Adam,
    micro_batches: Sequence[Batch],
    *,
    update: int,
    config: TrainingConfig,
    accumulator: GradientAccumulator | None = None,
) -> StepResult:
    """Update number ``update`` (from 1): mean gradient over all target tokens of all micro-batches, then Adam.

    accumulator: in which thread and on which rank each micro-batch is computed; by default here, one after the other
    """
    accumulator = accumulator or GradientAccumulator(model.parameters)
    n_tgt_tokens = accumulator.count_tokens(micro_batches, update)

    def compute_gradient(number: int, batch: Batch, accumulate: Accumulate) -> tuple[Tensor, Tensor]:
        loss, nll = model.loss(batch, DropoutMasks(config.seed, update, number))
        loss.backward(accumulator.scale.value / n_tgt_tokens, accumulate)
        return loss, nll

    model.parameters.zero_grad()
    loss, nll = accumulator.accumulate(micro_batches, compute_gradient)
    model.parameters.zero_frozen()
    norm = clip_gradient_norm(model.parameters.grad, config.clip_norm)
    rate = scheduled_rate(update, model.config.d_model, config)
    if is_finite := accumulator.is_finite(loss, norm):  # NaN and infinity must not reach the parameters
        optimizer.step(rate)
    return StepResult(loss / n_tgt_tokens, nll / n_tgt_tokens, n_tgt_tokens, norm, rate, is_finite)
