"""What every communicator must do, as a function of one rank. As a program it is one rank of mpiexec."""

import sys
import traceback
from collections.abc import Callable

import numpy as np

from minitransformer.backend import Array
from minitransformer.config import TrainingConfig
from minitransformer.distributed import Communicator, ProcessGroup, init_process_group

DTYPES = ("float32", "float64", "int64")
LENGTHS = (1, 7, 5000, 40_001)  # small ones may take another way through the communicator


def of_rank(rank: int, length: int, dtype: str) -> np.ndarray:
    """The array that ``rank`` brings: whole numbers, whose sums are exact in every order."""
    return np.random.default_rng((rank, length)).integers(-1000, 1000, length).astype(dtype)


def fractions(rank: int, length: int) -> np.ndarray:
    """Numbers of very different size: their sum depends on the order."""
    rng = np.random.default_rng((7, rank, length))
    return (rng.standard_normal(length) * 10.0 ** rng.integers(-6, 6, length)).astype("float32")


def sum_in_order(size: int, length: int) -> np.ndarray:
    total = fractions(0, length)
    for rank in range(1, size):
        total = total + fractions(rank, length)
    return total


def same(array: np.ndarray) -> np.ndarray:
    return array


def check(
    ranks: Communicator,
    to_device: Callable[[np.ndarray], Array] = same,
    to_host: Callable[[Array], np.ndarray] = same,
    in_order: bool = True,
) -> None:
    """Raise AssertionError where the communicator of this rank does not do what the interface says.

    to_device, to_host: copy an array
    in_order: it promises to add in the order of the ranks
    """
    for dtype in DTYPES:
        for length in LENGTHS:
            expected = sum(of_rank(rank, length, dtype) for rank in range(ranks.size))
            array = of_rank(ranks.rank, length, dtype)
            ranks.all_reduce_sum(array)
            np.testing.assert_array_equal(array, expected)
            assert array.dtype == dtype
            on_device = to_device(of_rank(ranks.rank, length, dtype))
            ranks.all_reduce_sum(on_device)
            np.testing.assert_array_equal(to_host(on_device), expected)
    ranks.barrier()
    if in_order:
        for length in LENGTHS:
            array = fractions(ranks.rank, length)
            ranks.all_reduce_sum(array)
            np.testing.assert_array_equal(array, sum_in_order(ranks.size, length))
    for text in ("rank {}", "größer {} " + "x" * 1000, ""):
        assert ranks.gather_text(text.format(ranks.rank)) == [text.format(rank) for rank in range(ranks.size)]
    assert ranks.gather_text("ä" * ranks.rank) == ["ä" * rank for rank in range(ranks.size)]
    with ranks.busy():
        ranks.barrier()


def check_group(order: str, process_group: ProcessGroup) -> int:
    """The contract of what a group connects to; rank 0 prints that it is kept."""
    settings = TrainingConfig(deterministic_reduce=order == "deterministic", micro_batches=8, timeout=20)
    communicator = process_group.connect(settings)
    check(communicator, in_order=order != "fast")
    if communicator.rank == 0:
        print(f"{communicator.size} ranks keep the contract by {type(communicator).__name__}")
    return 0


def format_error(error: BaseException) -> tuple[str, int]:
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}", 1


if __name__ == "__main__":
    with init_process_group(print).join(format_error) as process_group:
        check_group(sys.argv[1], process_group)
