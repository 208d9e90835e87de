"""Solutions of lesson 16, FLOPs and bytes."""


def intensity(n, k, m):
    return 2 * n * k * m / (4 * (n * k + k * m + n * m))


def tiled_reads(n, k, m, t):
    return n // t * (m // t) * (k // t) * 2 * t * t


def largest_tile(n_bytes):
    t = 1
    while 3 * (2 * t) ** 2 * 4 <= n_bytes:
        t *= 2
    return t


def halved(x):
    half = (len(x) + 1) // 2
    y = x[:half].copy()
    y[: len(x) - half] += x[half:]
    return y
