"""The PyTorch replica on a GPU, as a PyTorch user would run it there: autocast, TF32, fused Adam, compiled or not."""

from collections.abc import Callable

import torch

from benchmarks.peers.torch_model import TorchTransformer
from minitransformer.config import TrainingConfig
from minitransformer.models import Transformer
from minitransformer.text import Batch


def torch_update(
    ours: Transformer, batch: Batch, precision: str, device: str, compiled: bool = False
) -> Callable[[], torch.Tensor]:
    """A function that makes one update from the weights of ``ours`` and returns the loss, which stays on the device.

    precision: ``float32``, ``tf32`` or ``bfloat16`` (autocast)   device: PyTorch's name of it
    """
    model, config = TorchTransformer.from_ours(ours).to(device), TrainingConfig()
    betas = (config.beta1, config.beta2)
    adam = torch.optim.Adam(model.parameters(), lr=1e-7, betas=betas, eps=config.eps, fused=True)

    def loss_of(*ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bfloat16"):
            return model.loss(*ids)

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def update() -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
        sides = (batch.src, batch.tgt_in, batch.tgt_out)
        ids = [torch.from_numpy(each).long().to(device, non_blocking=True) for each in sides]
        adam.zero_grad(set_to_none=True)
        loss = loss_of(*ids) / batch.n_tgt_tokens
        loss.backward()
        adam.step()
        return loss.detach()

    return update
