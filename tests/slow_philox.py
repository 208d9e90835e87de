"""Philox 4x32-10 in Python's own integers, and the dropout mask drawn from it, value by value."""

import numpy as np


def philox(counter: list[int], key: list[int]) -> list[int]:
    """[Salmon et al. 2011, sec. 3.3], ten rounds."""
    modulus = 2**32
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * counter[0], modulus)
        high1, low1 = divmod(0xCD9E8D57 * counter[2], modulus)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B9) % modulus, (key[1] + 0xBB67AE85) % modulus]
    return counter


def slow_mask(mask) -> np.ndarray:
    """The boolean array of a CountedMask: column c of row r has draw c mod 8 of counter (c div 8, r, 0, site)."""
    width, key = mask.shape[-1], [mask.key & 0xFFFFFFFF, mask.key >> 32 & 0xFFFFFFFF]
    keep = np.empty((np.prod(mask.shape[:-1], dtype=int), width), bool)
    for row in range(len(keep)):
        for piece in range(0, width, 8):
            words = philox([piece // 8, row, 0, mask.site], key)
            draws = [words[i // 2] >> 16 * (i % 2) & 0xFFFF for i in range(8)]
            keep[row, piece : piece + 8] = [draw >= mask.arguments.threshold for draw in draws][: width - piece]
    return keep.reshape(mask.shape)
