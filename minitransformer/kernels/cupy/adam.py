"""Adam's update of all parameters in one kernel."""

from minitransformer.backend import Array
from minitransformer.kernels.cupy.launch import THREADS, blocks_for, launch

MAX_BLOCKS = 4096


def adam(
    w: Array,
    m: Array,
    v: Array,
    grad: Array,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    step_size: float,
    inv_sqrt_correction: float,
) -> None:
    """As in optim/adam.py, in place; all vectors have the same length and dtype."""
    blocks = min(MAX_BLOCKS, blocks_for(len(w)))
    arguments = (w, m, v, grad, len(w), beta1, beta2, eps, step_size, inv_sqrt_correction)
    launch("adam", "adam", (blocks,), (THREADS,), arguments, w.dtype)
