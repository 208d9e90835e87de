"""NCCL on the GPU of this machine: sums of one rank, alone and within an update."""

import statistics
import time

import numpy as np

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS
from minitransformer.distributed.nccl import NcclCommunicator
from minitransformer.kernels.precision import half_dtype
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.training import GradientAccumulator, train_step

SMALL = Size("small", ModelConfig(vocab_size=1000, n_layers=2, d_model=64, d_ff=128, n_heads=2), 16, 20, 1)


def nccl(device: Device, elements: int) -> dict:
    """Seconds of a sum in each type, and whether its values and those of an update are right."""
    ranks = NcclCommunicator(0, 1)
    ranks.join(ranks.make_id())
    found: dict = {"elements": elements}
    types = ("float32", "float64", "bfloat16", "float16")
    one_by_one(types, lambda name: _sum(ranks, name, elements, device), found)
    one_by_one(["update"], lambda _: _update(ranks, device), found)
    ranks.close()
    return found


def _sum(ranks: NcclCommunicator, name: str, elements: int, device: Device) -> dict:
    dtype = np.dtype(name) if name.startswith("float") else half_dtype(name)
    vector = device.xp.arange(elements, dtype=np.float32).astype(dtype)
    before = vector.copy()
    times = [_timed(ranks, vector, device) for _ in range(5)]
    same = bool((vector.view(np.uint8) == before.view(np.uint8)).all())
    return {"seconds": statistics.median(times), "a sum over one rank changes nothing": same}


def _timed(ranks: NcclCommunicator, vector, device: Device) -> float:
    device.wait()
    began = time.perf_counter()
    ranks.all_reduce_sum(vector)
    device.wait()
    return time.perf_counter() - began


def _update(ranks: NcclCommunicator, device: Device) -> dict:
    """The same update with NCCL's sums in it and without."""
    losses = []
    for communicator in (SINGLE_PROCESS, ranks):
        model = Transformer(SMALL.model, seed=1, xp=device.xp)
        optimizer = Adam(model.parameters)
        accumulator = GradientAccumulator(model.parameters, ranks=communicator)
        for update in (1, 2, 3):
            result = train_step(
                model, optimizer, [random_batch(SMALL)], update=update, config=TrainingConfig(), accumulator=accumulator
            )
        losses.append(result.loss)
    return {"loss without and with": losses, "equal": losses[0] == losses[1]}
