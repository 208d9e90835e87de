"""One update of the PyTorch replica: the counterpart of ``minitransformer/training/step.py``."""

from collections.abc import Sequence

import torch

from benchmarks.peers.torch_model import TorchTransformer
from minitransformer.config import TrainingConfig
from minitransformer.optim import scheduled_rate
from minitransformer.text import Batch


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
) -> float:
    """The same update as ``train_step``, without clipping and with dropout masks drawn by PyTorch; returns the loss."""
    n_tgt_tokens, loss = sum(batch.n_tgt_tokens for batch in micro_batches), 0.0
    optimizer.zero_grad()
    for batch in micro_batches:
        loss_sum = model.loss(*(torch.from_numpy(ids).long() for ids in (batch.src, batch.tgt_in, batch.tgt_out)))
        (loss_sum / n_tgt_tokens).backward()
        loss += loss_sum.item()
    for group in optimizer.param_groups:
        group["lr"] = scheduled_rate(update, model.config.d_model, config)
    optimizer.step()
    return loss / n_tgt_tokens
