"""A parallel corpus of any size: words drawn from a Zipf law, so that as many are rare as in real text."""

from pathlib import Path

import numpy as np
from tqdm import tqdm

WORDS_A_LINE = 33
EXPONENT = 1.25
"""Of 150 million words drawn for each side, 1.76 million distinct ones are expected, a third of them once."""
AT_A_TIME = 50_000
SYLLABLES = {
    "en": [c + v for c in "bdfghklmnprst" for v in ("a", "e", "i", "o", "u", "ar", "er")],
    "de": [c + v for c in ("b", "d", "f", "g", "h", "k", "l", "m", "n", "r", "s", "sch", "z") for v in "aeiouäü"],
    "fr": [c + v for c in ("b", "c", "ch", "d", "f", "j", "l", "m", "n", "p", "r", "t", "v") for v in "aeéèiou"],
}


def make_corpus(folder: Path, pairs: int, vocabulary: int, language: str) -> str:
    """``made.en`` and ``made.LANGUAGE`` in ``folder``; returns a description. One pair in a hundred occurs twice."""
    rng = np.random.default_rng(1)
    shares = 1.0 / (np.arange(vocabulary) + 2.7) ** EXPONENT
    limits = np.cumsum(shares / shares.sum())
    sides, sizes = ("en", language), {}
    seen = {side: np.zeros(vocabulary, dtype=np.int64) for side in sides}
    words = {side: _spell(np.arange(vocabulary), SYLLABLES[side]) for side in sides}
    files = {side: (folder / f"made.{side}").open("w", encoding="utf-8") for side in sides}
    for start in tqdm(range(0, pairs, AT_A_TIME), desc=f"corpus en-{language}", unit="part"):
        count = min(AT_A_TIME, pairs - start)
        lengths = np.clip(rng.gamma(3.0, WORDS_A_LINE / 3, count).astype(int), 2, 120)
        repeated = rng.random(count) < 0.01
        for side, file in files.items():
            own = np.maximum(lengths + rng.integers(-1, 2, count), 1)
            ranks = np.searchsorted(limits, rng.random(int(own.sum())))
            np.add.at(seen[side], ranks, 1)
            ends = np.cumsum(own).tolist()
            drawn = words[side][ranks].tolist()
            lines = [" ".join(drawn[end - n : end]) + "." for end, n in zip(ends, own.tolist(), strict=True)]
            doubled = zip(lines, repeated.tolist(), strict=True)
            file.write("".join(f"{line}\n{line}\n" if twice else f"{line}\n" for line, twice in doubled))
    for side, file in files.items():
        file.close()
        sizes[side] = (folder / f"made.{side}").stat().st_size
    _, inverse = np.unique(np.concatenate([words[side][seen[side] > 0] for side in seen]), return_inverse=True)
    counts = np.bincount(inverse, np.concatenate([each[each > 0] for each in seen.values()]))
    return (
        f"{pairs:,} synthetic pairs and 1 % of them twice, {sum(sizes.values()) / 1e9:.2f} GB, "
        f"{len(counts):,} distinct words, {np.mean(counts == 1):.0%} of them drawn once"
    )


def _spell(numbers: np.ndarray, syllables: list[str]) -> np.ndarray:
    """A word of its own for each number, short for small ones: its digits, written as syllables."""
    table, words = np.array(syllables, dtype=object), np.full(len(numbers), "", dtype=object)
    left = numbers + 1
    while (open_ := left > 0).any():
        left[open_] -= 1
        words[open_] = table[left[open_] % len(table)] + words[open_]
        left[open_] //= len(table)
    return words
