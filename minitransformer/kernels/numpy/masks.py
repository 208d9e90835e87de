"""Dropout masks as boolean arrays, in the memory layout that the rule's kernel reads."""

import math

import numpy as np


def draw_mask(rule: str, key: tuple[int, ...], site: int, shape: tuple[int, ...], p_drop: float) -> np.ndarray:
    """True with probability 1 - p_drop, of ``shape``; its values depend on key, site and layout alone.

    The draws are 16-bit integers, four to each raw value of the generator: p_drop is exact to 1 / 131072.
    The kernel of attention holds the weights as (..., S, T): a mask in that order is read twice as fast.
    """
    transposed = rule == "attention"
    if transposed:
        shape = (*shape[:-2], shape[-1], shape[-2])
    generator, size = np.random.SFC64(np.random.SeedSequence((*key, site))), math.prod(shape)
    draws = generator.random_raw(-(-size // 4)).view(np.uint16)[:size].reshape(shape)
    keep = draws >= round(p_drop * 65536)
    return keep.swapaxes(-1, -2) if transposed else keep
