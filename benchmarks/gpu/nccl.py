"""NCCL on the GPU of this machine: sums of one rank, alone and within an update; two ranks on one GPU if allowed."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu.stage_process import one_by_one, reason
from benchmarks.gpu.steps import Device
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS
from minitransformer.distributed.nccl import NcclCommunicator
from minitransformer.kernels.precision import half_dtype
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import Tokenizer
from minitransformer.training import GradientAccumulator, train_step

SMALL = Size("small", ModelConfig(vocab_size=1000, n_layers=2, d_model=64, d_ff=128, n_heads=2), 16, 20, 1)
CONFIG = """
[model]
n_layers = 1
d_model = 32
d_ff = 64
n_heads = 2
[data]
train_src = "text"
train_tgt = "text"
tokenizer = "bpe"
src_tokens = 200
tgt_tokens = 200
[training]
directory = "run"
updates = 5
micro_batches = 2
validate_every = 0
timeout = 60.0
[execution]
device = "cuda"
"""


def nccl(device: Device, elements: int) -> dict:
    """Seconds of a sum in each type, whether its values and those of an update are right, and the fate of two ranks."""
    ranks = NcclCommunicator(0, 1)
    ranks.join(ranks.make_id())
    found: dict = {"elements": elements}
    types = ("float32", "float64", "bfloat16", "float16")
    one_by_one(types, lambda name: _sum(ranks, name, elements, device), found)
    one_by_one(["update"], lambda _: _update(ranks, device), found)
    ranks.close()
    return one_by_one(["two ranks on one GPU"], lambda _: _two_ranks(), found)


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
    ranks.start_all_reduce_sum(vector)
    ranks.finish()
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
        losses.append(result.read().loss)
    return {"loss without and with": losses, "equal": losses[0] == losses[1]}


def _two_ranks() -> dict:
    """``launch -n 2`` with the switch that NCCL 2.30 has for two ranks on one GPU."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"a{number} b{number % 7}" for number in range(300)]
        (folder / "text").write_text("".join(f"{line}\n" for line in lines))
        Tokenizer.train(lines, 300).save(folder / "bpe")
        (folder / "config.toml").write_text(CONFIG)
        command = [sys.executable, "-m", "minitransformer", "launch", "-n", "2", "--"]
        environment = os.environ | {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
        try:
            run = subprocess.run(
                [*command, "train", "config.toml"],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
            )
        except subprocess.TimeoutExpired as error:
            return {"failed": reason(error)}
        return {"exit status": run.returncode, "end": run.stderr.strip().split("\n")[-3:]}
