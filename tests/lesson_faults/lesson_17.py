"""Planted faults of lesson 17: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_17 as right


def added_as_they_come(arrivals):
    total = np.zeros_like(arrivals[0][1])
    for _, array in arrivals:
        total = total + array
    return total


FAULTS = {
    "clipped": {
        "mean of the ranks' means": "sums.sum(axis=0) / n_tokens.sum() -> (sums / n_tokens[:, None]).mean(axis=0)",
        "Each rank has clipped its own gradient": lambda sums, n_tokens, max_norm: sum(
            grad * min(1.0, max_norm / np.linalg.norm(grad)) for grad in sums / n_tokens.sum()
        ),
        "made longer": "min(1.0, max_norm / np.linalg.norm(grad)) -> max_norm / np.linalg.norm(grad)",
        "not divided by the number of tokens": " / n_tokens.sum() -> ",
        "Nothing is clipped": " * min(1.0, max_norm / np.linalg.norm(grad)) -> ",
    },
    "ordered_sum": {
        "another order of arrival": added_as_they_come,
        "Rank 0's array is missing": "total = arrays[0].copy() -> total = np.zeros_like(arrays[0])",
        "This is the mean": "return total -> return total / len(arrays)",
    },
    "ring_step": {
        "added once more": "after[receiver, sent] = slices[rank, sent] -> after[receiver, sent] += slices[rank, sent]",
        "one step too late": "step < n - 1 -> step < n",
        "its own slice in every step": "(rank - step) % n -> rank",
        "not r + t": "(rank - step) -> (rank + step)",
        "to the rank before": "(rank + 1) % n -> (rank - 1) % n",
    },
    "largest": {
        "Half of the bytes are missing": "2 * (n - 1) / n * n_bytes -> (n - 1) / n * n_bytes",
        "sends one slice": "2 * (n - 1) / n * n_bytes -> 2 * (n - 1) * n_bytes",
        "The latency of the steps is missing": " + 2 * (n - 1) * latency -> ",
        "One rank too few": ">= efficiency -> > efficiency",
        "divided by the ranks": "compute / (n * seconds(n)) -> compute / seconds(n)",
    },
    "diverged": {
        "counted from 1": "start=1 -> start=0",
        "compared with rank 0": lambda checksums: next(
            (update, rank)
            for update, row in enumerate(checksums, start=1)
            for rank, checksum in enumerate(row)
            if checksum != row[0]
        ),
        "looks at the last update": lambda checksums: (len(checksums), right.diverged(checksums[-1:])[1]),
    },
}
