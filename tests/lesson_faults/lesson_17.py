"""Planted faults of lesson 17: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_17 as right


def added_as_they_come(arrivals):
    total = np.zeros_like(arrivals[0][1])
    for _, array in arrivals:
        total = total + array
    return total


def squared_norm_is_compared(sums, n_tokens, max_norm):
    grad = sums.sum(axis=0) / n_tokens.sum()
    return grad * max_norm / np.linalg.norm(grad) if grad @ grad > max_norm else grad


def last_to_arrive_is_left_out(arrivals):
    return added_as_they_come(arrivals[:-1])


def numbered_by_the_receiver(slices, step):
    n, after = len(slices), slices.copy()
    ranks = np.arange(n)
    i = (ranks - step) % n
    after[ranks, i] = slices[ranks - 1, i] + (slices[ranks, i] if step < n - 1 else 0.0)
    return after


FAULTS = {
    "clipped": {
        "mean of the ranks' means": "sums.sum(axis=0) / n_tokens.sum() -> (sums / n_tokens[:, None]).mean(axis=0)",
        "Each rank has clipped its own gradient": lambda sums, n_tokens, max_norm: sum(
            grad * min(1.0, max_norm / np.linalg.norm(grad)) for grad in sums / n_tokens.sum()
        ),
        "the root is missing": "np.linalg.norm(grad) -> (grad @ grad)",
        "Every number is 2 times": squared_norm_is_compared,
        "made longer": "min(1.0, max_norm / np.linalg.norm(grad)) -> max_norm / np.linalg.norm(grad)",
        "not divided by the number of tokens": " / n_tokens.sum() -> ",
        "Nothing is clipped": " * min(1.0, max_norm / np.linalg.norm(grad)) -> ",
    },
    "ordered_sum": {
        "another order of arrival": added_as_they_come,
        "Expected [": last_to_arrive_is_left_out,  # and not "right up to rounding"
        "Rank 0's array is missing": "total = arrays[0].copy() -> total = np.zeros_like(arrays[0])",
        "This is the mean": "return total -> return total / len(arrays)",
    },
    "ring_step": {
        "added once more": "after[receiver, sent] = slices[rank, sent] -> after[receiver, sent] += slices[rank, sent]",
        "one step too late": "step < n - 1 -> step < n",
        "its own slice in every step": "(rank - step) % n -> rank",
        "not r + t": "(rank - step) -> (rank + step)",
        "t begins again at 0": "(rank - step) -> (rank - (step if step < n - 1 else step - n + 1))",
        "here they are r + 1 - t": numbered_by_the_receiver,
        "to the rank before": "(rank + 1) % n -> (rank - 1) % n",
    },
    "largest": {
        "Half of the bytes are missing": "2 * (n - 1) / n * n_bytes -> (n - 1) / n * n_bytes",
        "sends one slice": "2 * (n - 1) / n * n_bytes -> 2 * (n - 1) * n_bytes",
        "one half of the ring": "2 * (n - 1) / n * n_bytes / bandwidth + 2 * (n - 1) -> "
        "(n - 1) / n * n_bytes / bandwidth + (n - 1)",
        "The latency of the steps is missing": " + 2 * (n - 1) * latency -> ",
        "Expected 1024, got 1023": "range(1, 1025) -> range(1, 1024)",
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
        "that most have": "2 * list(of_ranks).count(checksum) < -> len(set(of_ranks.tolist())) > 1 and "
        "2 * list(of_ranks).count(checksum) >",
        "looks at the last update": lambda checksums: (len(checksums), right.diverged(checksums[-1:])[1]),
    },
}
