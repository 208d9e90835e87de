"""One update of the PyTorch replica: the counterpart of ``minitransformer/training/step.py``."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from benchmarks.peers.torch_model import TorchTransformer
from minitransformer.config import PAD, TrainingConfig
from minitransformer.optim import scheduled_rate
from minitransformer.text import Batch
from minitransformer.training import StepResult


def torch_adam(model: TorchTransformer, config: TrainingConfig) -> torch.optim.Adam:
    """PyTorch's Adam in its fastest form on the CPU, fused; the learning rate is set before each step."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(config.beta1, config.beta2), eps=config.eps, fused=True)


def torch_train_step(
    model: TorchTransformer,
    optimizer: torch.optim.Adam,
    micro_batches: Sequence[Batch],
    *,
    update: int,
    config: TrainingConfig,
    measures: bool = True,
) -> StepResult:
    """The same update as ``train_step``, with dropout masks drawn by PyTorch.

    measures: False leaves out the unsmoothed nll and, without clipping, the gradient norm (both nan), which cost
        PyTorch time that a race should not charge it with.
    """
    n_tgt_tokens = sum(batch.n_tgt_tokens for batch in micro_batches)
    loss, nll, norm = 0.0, 0.0 if measures else math.nan, math.nan
    optimizer.zero_grad()
    for batch in micro_batches:
        src, tgt_in, tgt_out = (torch.from_numpy(ids).long() for ids in (batch.src, batch.tgt_in, batch.tgt_out))
        loss_sum, logits = model.loss(src, tgt_in, tgt_out)
        (loss_sum / n_tgt_tokens).backward()
        loss += loss_sum.item()
        if measures:
            nll += F.cross_entropy(logits.detach(), tgt_out.flatten(), ignore_index=PAD, reduction="sum").item()
    if measures or config.clip_norm:
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf).item()
    rate = scheduled_rate(update, model.config.d_model, config)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return StepResult(loss / n_tgt_tokens, nll / n_tgt_tokens, n_tgt_tokens, norm, rate)
