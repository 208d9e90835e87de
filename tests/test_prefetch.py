"""Batches built ahead of time, in the background."""

import time

import numpy as np
import pytest

from minitransformer.errors import DataError
from minitransformer.text import BatchStream
from minitransformer.text.prefetch import Prefetcher


def test_prefetched_batches_are_those_of_the_stream_and_the_next_are_kept(rng):
    src, tgt = ([rng.integers(4, 99, n).tolist() for n in rng.integers(1, 40, 300)] for _ in range(2))
    stream, plain = (BatchStream(src, tgt, src_tokens=200, tgt_tokens=200, seed=3) for _ in range(2))
    ahead = Prefetcher(stream)
    numbers = [0, 1, 2, 3, 50, 4, 5, 2 * stream.batches_per_epoch, 0, 1]
    for number in [*numbers, *range(stream.batches_per_epoch - 3, stream.batches_per_epoch + 3)]:
        np.testing.assert_array_equal(ahead.batch(number).rows, plain.batch(number).rows)
        assert sorted(ahead.pending) == list(range(number + 1, number + 1 + Prefetcher.AHEAD))


def test_the_next_batches_are_built_in_the_background():
    made = []

    class Stream:
        def batch(self, number):
            made.append(number)
            if number == 13:
                raise DataError("13 is missing")
            return number

        def position(self, number):
            return divmod(number, 100)

        def prepare(self, epoch):
            made.append(f"epoch {epoch}")

    ahead = Prefetcher(Stream())
    assert ahead.batch(5) == 5
    deadline = time.monotonic() + 20
    while len(made) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(made, key=str) == sorted(["epoch 1", *range(5, 14)], key=str)
    for number in range(6, 13):
        assert ahead.batch(number) == number
    with pytest.raises(DataError, match="13 is missing"):
        ahead.batch(13)
    assert made.count(6) == 1
