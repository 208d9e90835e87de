"""Planted faults of lesson 16: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

FAULTS = {
    "intensity": {
        "an addition comes with each": "2 * n -> n",
        "The result is written too": " + n * m -> ",
        "four bytes; here numbers": "(4 * (n * k + k * m + n * m)) -> (n * k + k * m + n * m)",
    },
    "tiled_reads": {
        "without tiles": lambda n, k, m, t: sum(2 * k for _ in range(n * m)) if n * m < 1e5 else 2 * n * k * m,
        "Only one of the two": " * 2 * t * t ->  * t * t",
        "k / t tiles of each": " * (k // t) -> ",
        "each has t * t numbers": " * 2 * t * t ->  * 2",
    },
    "largest_tile": {
        "The tile of the result": "3 * (2 -> 2 * (2",
        "to the last byte": "<= n_bytes -> < n_bytes",
        "nearest power of two": "return t -> return 2 * t if n_bytes > 24 * t * t else t",
        "twice as large as fits": "return t -> return 2 * t",
    },
    "halved": {
        "Neighbors are added": lambda x: np.add.reduceat(x, np.arange(0, len(x), 2)),
        "one over, the middle one": lambda x: x[: len(x) // 2] + x[-(len(x) // 2) :],
        "the mean of the pairs": "return y -> return y / 2",
    },
}
