"""NCCL on the GPUs of this machine: sums of one rank, alone and within an update, and of two ranks."""

import statistics
from functools import partial

import numpy as np

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device, once
from minitransformer.backend import load_array_module
from minitransformer.cli.common import explain
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS, ProcessGroup
from minitransformer.distributed.launch import launch
from minitransformer.distributed.nccl import NcclCommunicator
from minitransformer.kernels.precision import half_dtype
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.training import GradientAccumulator, train_step

SMALL = Size("small", ModelConfig(vocab_size=1000, n_layers=2, d_model=64, d_ff=128, n_heads=2), 16, 20, 1)


def nccl(device: Device, elements: int, size: Size = SMALL) -> dict:
    """Seconds of a sum in each type, and whether its values and those of an update are right."""
    ranks = NcclCommunicator(0, 1)
    ranks.join(ranks.make_id())
    found: dict = {"elements": elements}
    types = ("float32", "float64", "bfloat16", "float16")
    one_by_one(types, lambda name: _sum(ranks, name, elements, device), found, device.wait)
    one_by_one(["update"], lambda _: _update(ranks, size, device), found, device.wait)
    ranks.close()
    one_by_one(["two ranks"], lambda _: two_ranks(device), found, device.wait)
    says = (
        f"one rank: {1000 * found['float32']['seconds']:.1f} ms for {elements:,} float32" if "float32" in found else ""
    )
    return found | {"says": f"{says}; two ranks: {found['two ranks'].get('sum', 'none')}"}


def two_ranks(device: Device) -> dict:
    """The sum of two processes, started as by `minitransformer launch`, with a GPU each."""
    on_gpu = device.xp is not np
    if on_gpu and device.xp.cuda.runtime.getDeviceCount() < 2:
        return {"sum": "not tried: there is one GPU, and NCCL wants one for each rank"}
    words: list[str] = []
    code = launch(partial(_add, on_gpu), 2, lambda line: words.extend(line.split()), explain)
    return {"sum": "right"} if code == 0 else {"failed": " ".join(words) or f"exit code {code}"}


def _add(on_gpu: bool, group: ProcessGroup) -> int:
    """1 + 2, in each of the two ranks."""
    xp = np
    if on_gpu:
        group.use_own_gpu()
        xp = load_array_module("cuda")
    ranks = group.connect(TrainingConfig(micro_batches=2, timeout=30.0), on_gpu)
    vector = xp.full(1000, group.rank + 1, np.float32)
    ranks.all_reduce_sum(vector)
    return 0 if bool((vector == 3).all()) else 1


def _sum(ranks: NcclCommunicator, name: str, elements: int, device: Device) -> dict:
    dtype = np.dtype(name) if name.startswith("float") else half_dtype(name)
    vector = device.xp.arange(elements, dtype=np.float32).astype(dtype)
    before = vector.copy()
    times = [once(lambda: ranks.all_reduce_sum(vector), device) for _ in range(5)]
    same = bool((vector.view(np.uint8) == before.view(np.uint8)).all())
    found = {"seconds": statistics.median(times), "a sum over one rank changes nothing": same}
    return found | ({} if same else {"failed": "a sum over one rank changed the values"})


def _update(ranks: NcclCommunicator, size: Size, device: Device) -> dict:
    """The same update with NCCL's sums in it and without."""
    losses = []
    for communicator in (SINGLE_PROCESS, ranks):
        model = Transformer(size.model, seed=1, xp=device.xp)
        optimizer = Adam(model.parameters)
        accumulator = GradientAccumulator(model.parameters, ranks=communicator)
        for update in (1, 2, 3):
            result = train_step(
                model, optimizer, [random_batch(size)], update=update, config=TrainingConfig(), accumulator=accumulator
            )
        losses.append(result.loss)
    found = {"loss without and with": losses, "equal": losses[0] == losses[1]}
    return found | ({} if found["equal"] else {"failed": f"losses without and with NCCL's sums differ: {losses}"})
