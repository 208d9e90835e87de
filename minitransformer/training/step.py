"""One update of the parameters, on one page: every training runs this."""

from collections.abc import Sequence

from minitransformer.autograd import GradientSink, Tensor
from minitransformer.config import TrainingConfig
from minitransformer.models import Model
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate
from minitransformer.text import Batch
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

    accumulator: how micro-batches are computed and their gradients summed: in turn (default), in threads, over ranks
    """
    accumulator = accumulator or GradientAccumulator()
    n_src_tokens, n_tgt_tokens = accumulator.count_tokens(micro_batches, update)

    def forward_backward(number: int, batch: Batch, into: GradientSink | None = None) -> tuple[Tensor, Tensor]:
        dropout, grad_loss = DropoutMasks(config.seed, update, number), accumulator.loss_scale / n_tgt_tokens
        return accumulator.loss_and_backward(model, batch, dropout, grad_loss, into)

    model.parameters.zero_grad()
    loss, nll = accumulator.accumulate(micro_batches, forward_backward)
    norm = clip_gradient_norm(model.parameters.grad, config.clip_norm)
    rate = learning_rate(update, model.config.d_model, config.warmup_steps, config.lr_scale)
    if accepted := accumulator.accepts(loss, norm):  # NaN and infinity must not reach the parameters
        optimizer.step(rate)
    return StepResult(loss / n_tgt_tokens, nll / n_tgt_tokens, n_src_tokens, n_tgt_tokens, norm, rate, accepted)
