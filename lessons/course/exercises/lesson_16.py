"""Exercises of lesson 16: FLOPs and bytes."""

import math

import numpy as np

from course.exercise import Exercise, Mistake

# -- intensity --------------------------------------------------------------------------------------------------------

SHAPES = [(2, 3, 4), (64, 64, 64), (1, 512, 512), (1024, 512, 2048)]


def intensity_with(flops=lambda n, k, m: 2 * n * k * m, numbers=lambda n, k, m: n * k + k * m + n * m, size=4):
    return lambda n, k, m: flops(n, k, m) / (size * numbers(n, k, m))


INTENSITY = Exercise(
    "16_flops.intensity",
    lambda rng: list(SHAPES),
    reference=intensity_with(),
    tested="four shapes, one of them a single row",
    rtol=1e-9,
    mistakes=(
        Mistake(
            "This is half of it: an addition comes with each multiplication, and a float32 has four bytes, not eight.",
            intensity_with(lambda n, k, m: n * k * m),
        ),
        Mistake("A float32 has four bytes; here numbers are counted.", intensity_with(size=1)),
        Mistake("The result is written too.", intensity_with(numbers=lambda n, k, m: n * k + k * m)),
        Mistake("Only the result is counted: both inputs are read.", intensity_with(numbers=lambda n, k, m: n * m)),
        Mistake("This is bytes per FLOP; FLOPs per byte are asked for.", lambda n, k, m: 1 / intensity_with()(n, k, m)),
    ),
)

# -- tiled_reads ------------------------------------------------------------------------------------------------------

TILED_READS = Exercise(
    "16_flops.tiled_reads",
    lambda rng: [(2, 3, 4, 1), (4, 8, 12, 2), (64, 128, 32, 16), (1024, 512, 2048, 32)],
    reference=lambda n, k, m, t: 2 * n * k * m // t,
    tested="tiles of 1, 2, 16 and 32",
    rtol=1e-9,
    mistakes=(
        Mistake(
            "This is without tiles: a tile of t rows and columns is read once and used t times.",
            lambda n, k, m, t: 2 * n * k * m,
        ),
        Mistake("Only one of the two matrices is counted.", lambda n, k, m, t: n * k * m // t),
        Mistake(
            "Each number of both matrices is read once only: that needs one tile for all.",
            lambda n, k, m, t: n * k + k * m,
        ),
        Mistake(
            "A tile of the result needs k / t tiles of each matrix, not one.",
            lambda n, k, m, t: (n // t) * (m // t) * 2 * t * t,
        ),
        Mistake("These are tiles; each has t * t numbers.", lambda n, k, m, t: (n // t) * (m // t) * (k // t) * 2),
        Mistake("The reads fall as 1 / t, not as 1 / t^2.", lambda n, k, m, t: 2 * n * k * m / t**2),
        Mistake("These are bytes; numbers are asked for.", lambda n, k, m, t: 8 * n * k * m // t),
        Mistake("The result is written, not read.", lambda n, k, m, t: 2 * n * k * m // t + n * m),
    ),
)

# -- largest_tile -----------------------------------------------------------------------------------------------------


def tile_with(n_tiles=3, size=4, strict=False):
    def largest(n_bytes):
        fits = [t for t in 2 ** np.arange(20) if n_tiles * t * t * size < n_bytes + (not strict)]
        return int(max(fits, default=0))

    return largest


LARGEST_TILE = Exercise(
    "16_flops.largest_tile",
    lambda rng: [(20,), (48,), (200,), (1100,), (1792,), (49_152,), (131_072,), (232_448,), (9_000,)],
    reference=tile_with(),
    tested="memories from 20 bytes to 227 KiB, some of them filled to the last byte",
    mistakes=(
        Mistake("Three tiles must fit: one of each matrix and one of the result.", tile_with(n_tiles=1)),
        Mistake("The tile of the result needs room too.", tile_with(n_tiles=2)),
        Mistake(
            "This is twice as large as fits: a tile takes t * t times four bytes, and there are three.",
            tile_with(size=1),
        ),
        Mistake("A float32 has four bytes, not eight.", tile_with(size=8)),
        Mistake("Tiles that fill the memory to the last byte do fit.", tile_with(strict=True)),
        Mistake(
            "The nearest power of two is taken, even where it is larger than what fits.",
            lambda n_bytes: 2 ** round(math.log2(n_bytes / 12) / 2),
        ),
        Mistake("A power of two is asked for.", lambda n_bytes: int((n_bytes / 12) ** 0.5)),
    ),
)

# -- halved -----------------------------------------------------------------------------------------------------------


def halved(x):
    half = (len(x) + 1) // 2
    return x[:half] + np.append(x[half:], np.zeros(2 * half - len(x)))


def ends_with_the_sum(function, x):
    """Repeated, it leaves the sum."""
    total, y = x.sum(), x
    for _ in range(len(x)):
        if len(y) == 1:
            break
        y = np.asarray(function(y.copy()))
    return None if len(y) == 1 and np.isclose(y[0], total) else "Repeated to the last number, it does not give the sum."


HALVED = Exercise(
    "16_flops.halved",
    lambda rng: ((rng.standard_normal(n),) for n in (2, 4, 8, 5, 7)),
    reference=halved,
    tested="even and odd lengths, and that the sum is what is left in the end",
    properties=(ends_with_the_sum,),
    mistakes=(
        Mistake(
            "Neighbors are added. Thread i takes the number half a length away, so that neighbors read neighbors.",
            lambda x: x[0::2] + np.append(x[1::2], np.zeros(len(x) % 2)),
        ),
        Mistake(
            "An odd length leaves one over, the middle one: it must not be lost.",
            lambda x: x[: len(x) // 2] + x[len(x) - len(x) // 2 :],
        ),
        Mistake(
            "The second half is reversed.",
            lambda x: x[: (len(x) + 1) // 2] + np.append(x[(len(x) + 1) // 2 :][::-1], np.zeros(len(x) % 2)),
        ),
        Mistake("This is the whole sum; one step is asked for.", lambda x: x.sum()),
        Mistake("This is the mean of the pairs.", lambda x: halved(x) / 2),
    ),
)

EXERCISES = (INTENSITY, TILED_READS, LARGEST_TILE, HALVED)
