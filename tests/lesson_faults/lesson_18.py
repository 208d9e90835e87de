"""Planted faults of lesson 18: for each exercise, words that the message must hold and the wrong function."""

import numpy as np


def by_bits(x, added):
    """The upper half of the bits of float32, after something is added to the lower half."""
    bits = np.float32(x).view(np.uint32) + np.uint32(added)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(float)


FAULTS = {
    "bfloat16": {
        "cuts digits off": "np.round( -> np.trunc(",
        "farther from 0": lambda x: by_bits(x, 0x8000),
        "This is float16": np.float16,
        "One digit too many": ("2.0**8 -> 2.0**9", "exponents - 8 -> exponents - 9"),
        "One digit too few": ("2.0**8 -> 2.0**7", "exponents - 8 -> exponents - 7"),
    },
    "stalls_at": {
        "The sum still grows there": "2.0**n_digits -> 2.0**(n_digits - 1)",
        "It has stalled before": "2.0**n_digits -> 2.0**(n_digits + 1)",
        "right for x = 1": "x * 2.0**n_digits -> 2.0**n_digits",
        "One more addition is exact": "x * 2.0**n_digits -> x * 2.0**n_digits - x",
    },
    "loss_scale": {
        "not 65536": "65504 -> 65536",
        "rounded up": "math.floor -> math.ceil",
        "Negative gradients": "np.abs(grads) -> grads",
        "just below a power of two": lambda grads: np.exp2(16 - np.frexp(grads)[1].max()),
        "`int` cuts": "math.floor( -> int(",
        "A power of two": lambda grads: 65504 / np.abs(grads).max(),
    },
    "adapted": {
        "After an overflow counting": "scale / 2, 0 -> scale / 2, good_updates",
        "counted as a good one": "scale / 2, 0 -> scale / 2, good_updates + 1",
        "An overflow doubled": "if not is_finite: -> if not is_finite and good_updates < 1999:",
        "one update too late": "good_updates + 1 == 2000 -> good_updates == 2000",
        "After a doubling counting": "2 * scale, 0 -> 2 * scale, 2000",
    },
    "stochastic": {
        "Negative numbers are rounded towards 0": "np.floor -> np.trunc",
        "nearest multiple": "x / spacing + u -> x / spacing + 0.5",
        "just 1 minus the remainder": lambda x, spacing, u: (
            (np.floor(x / spacing) + (u > 1 - x / spacing + np.floor(x / spacing))) * spacing
        ),
        "divide it by the spacing": lambda x, spacing, u: x - x % spacing + spacing * (u >= 1 - x % spacing),
        "not its number": ") * spacing -> )",
        "Up and down are exchanged": lambda x, spacing, u: (
            (np.floor(x / spacing) + (u > x / spacing - np.floor(x / spacing))) * spacing
        ),
    },
}
