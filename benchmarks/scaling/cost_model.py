"""What an update costs on many GPUs: products at a sustained rate, sums by ring, latency + bytes / bandwidth.

Every number that is not counted or measured is an assumption, and stands in ``Machine`` or ``Network`` with its source.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minitransformer.config import ModelConfig
from minitransformer.distributed.overlap import BUCKET_ELEMENTS
from minitransformer.planning import batch_flops, parameter_count

GRADIENT_BYTES = 4  # an element of the gradient vector, float32
SENTENCE = 25  # tokens of a sentence of WMT 2014, about
BACKWARD = 2 / 3  # share of backward in the products of a step: two products for each one of forward


@dataclass(frozen=True)
class Network:
    """How GPUs are joined.

    bandwidth: bytes/s in one direction, of a GPU (NVLink) or of a machine (its network card)
    latency: seconds a message
    """

    name: str
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Machine:
    """GPUs in one machine, and what each sustains.

    rate: FLOP/s sustained in training, not the peak
    """

    gpus: int
    rate: float
    nvlink: Network


NVLINK = Network("NVLink, 8 GPUs a machine", 450e9, 5e-6)
NETWORKS = (NVLINK, Network("400 Gb/s a machine", 50e9, 20e-6), Network("100 Gb/s a machine", 12.5e9, 20e-6))
# 264 TFLOP/s is the goal of 36 ms for a step of base with 25,000 + 25,000 tokens: nobody has measured it here.
ASSUMED = Machine(gpus=8, rate=264e12, nvlink=NVLINK)


def update_flops(config: ModelConfig, tokens: float) -> float:
    """FLOPs of the products of an update with so many tokens on each side, in sentences of `SENTENCE` tokens."""
    return tokens / SENTENCE * batch_flops(config, 1, SENTENCE, SENTENCE)


def ring_seconds(n_bytes: float, size: int, bandwidth: float, latency: float) -> float:
    """2 (n - 1) steps of bytes / n each: every byte is sent once to be added and once to be spread."""
    return 2 * (size - 1) * (latency + n_bytes / size / bandwidth)


def all_reduce_seconds(n_bytes: float, gpus: int, machine: Machine, network: Network) -> float:
    """A ring within each machine, and one over the machines, whose network card all GPUs of it share."""
    within = min(gpus, machine.gpus)
    seconds = ring_seconds(n_bytes, within, machine.nvlink.bandwidth, machine.nvlink.latency)
    return seconds + ring_seconds(n_bytes, -(-gpus // machine.gpus), network.bandwidth, network.latency)


def step_seconds(
    config: ModelConfig, tokens_per_gpu: float, gpus: int, machine: Machine, network: Network, overlap: bool = True
) -> float:
    """One update with ``tokens_per_gpu`` tokens on each side.

    With overlap, sums hide behind backward but for the last slices: the tied matrix, used first and last.
    """
    compute = update_flops(config, tokens_per_gpu) / machine.rate
    n_bytes = parameter_count(config) * GRADIENT_BYTES
    total = all_reduce_seconds(n_bytes, gpus, machine, network) if gpus > 1 else 0.0
    if not overlap or gpus == 1:
        return compute + total
    last = max(config.vocab_size * config.d_model, BUCKET_ELEMENTS) * GRADIENT_BYTES
    shown = all_reduce_seconds(last, gpus, machine, network)
    return compute + max(shown, total - BACKWARD * compute)


def speedup(
    config: ModelConfig, tokens: float, gpus: int, machine: Machine, network: Network, weak: bool, overlap: bool = True
) -> float:
    """Tokens per second as a multiple of one GPU's. weak: ``tokens`` on each GPU; else shared among them."""
    each = tokens if weak else tokens / gpus
    alone = step_seconds(config, tokens, 1, machine, network)
    together = step_seconds(config, each, gpus, machine, network, overlap)
    return alone / together * (gpus if weak else 1)


def fit(n_bytes: Sequence[float], seconds: Sequence[float], size: int) -> tuple[float, float]:
    """(latency, bandwidth) of ``ring_seconds`` that come nearest to measured times, relative errors squared."""
    n_bytes, seconds = np.asarray(n_bytes, float), np.asarray(seconds, float)
    steps = 2.0 * (size - 1)
    columns = np.stack([np.full_like(n_bytes, steps), steps * n_bytes / size], axis=1) / seconds[:, None]
    latency, per_byte = np.linalg.lstsq(columns, np.ones_like(seconds), rcond=None)[0]
    return max(float(latency), 0.0), 1.0 / max(float(per_byte), 1e-15)
