"""The cost of training in floating-point operations: counted from the shapes, and as the paper counts  [sec. 6.1].

The paper multiplies the time, the number of GPUs and "an estimate of the sustained single-precision floating-point
capacity of each". That includes everything that takes time; the formula counts the matrix products alone.
"""

import math
import time
from dataclasses import asdict, dataclass
from types import ModuleType

import numpy as np

from minitransformer.config import ModelConfig
from minitransformer.kernels.numpy.gemm import matmul
from minitransformer.models import model_class


def parameter_count(config: ModelConfig) -> int:
    """Number of trainable parameters      [Table 3, last column]"""
    return sum(math.prod(shape) for shape in model_class(config).parameter_shapes(config).values())


def batch_flops(config: ModelConfig, sentences: int, src_length: int, tgt_length: int) -> int:
    """FLOPs of the matrix products of one forward and backward pass, a multiplication and an addition counted as two.

    Per query and per key of an attention: 2 d h (d_k + d_v) for two projections each; per pair of them 2 h (d_k + d_v);
    per position of a feed-forward layer 4 d d_ff, of the output 2 d V. The backward pass has two products for each one
    of the forward pass.

    src_length, tgt_length: positions of a sentence in the batch, padding and end mark included
    """
    work = model_class(config).workload(config, src_length, tgt_length)
    widths = config.n_heads * (config.d_k + config.d_v)
    forward = 2 * config.d_model * config.vocab_size * work.outputs + 2 * work.products
    for layers, queries, keys, attended in work.attentions:
        projections = 2 * config.d_model * widths * (queries + keys)  # W^Q and W^O, W^K and W^V
        forward += layers * (projections + 2 * widths * queries * attended)
    for layers, positions in work.feed_forwards:
        forward += layers * 4 * config.d_model * config.d_ff * positions
    return 3 * sentences * forward


def measure_rate(xp: ModuleType) -> float:
    """FLOP/s of a large float32 product on this machine: what it sustains at best. Takes about half a second."""
    a, product = xp.ones((2048, 2048), dtype=xp.float32), matmul if xp is np else xp.matmul
    float(product(a, a)[0, 0])  # the first product initializes the library
    began, products = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        float(product(a, a)[0, 0])  # reading a number waits for a GPU
        products += 1
    return 2 * len(a) ** 3 * products / (time.perf_counter() - began)


@dataclass(frozen=True)
class Cost:
    """The cost of a whole run.

    formula: FLOPs by `batch_flops`   sustained: FLOP/s of each device
    """

    formula: float
    seconds: float
    devices: int
    sustained: float

    @property
    def paper(self) -> float:
        """FLOPs as the paper counts: time x devices x sustained FLOP/s of each  [sec. 6.1]."""
        return self.seconds * self.devices * self.sustained

    def to_dict(self) -> dict[str, float]:
        """The fields and `paper`, as in ``cost.json``."""
        return asdict(self) | {"paper": self.paper}
