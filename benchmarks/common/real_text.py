"""The real text of benchmarks: captions, everyday sentences, and news and parliament, English and German."""

from pathlib import Path

from minitransformer.text import read_parallel

CORPORA = ("multi30k", "tatoeba_en_de", "wmt_small_en_de")
"""Folders of MINITRANSFORMER_DATA."""


def real_pairs(folder: Path) -> tuple[list[str], list[str]]:
    """(English, German), 239,988 aligned lines."""
    sides = [read_parallel(folder / name / "train.en", folder / name / "train.de") for name in CORPORA]
    return [line for english, _ in sides for line in english], [line for _, german in sides for line in german]


def text_size(lines: list[str]) -> int:
    """Bytes of a file of these lines."""
    return sum(len(line.encode()) + 1 for line in lines)


def repeated_to(lines: list[str], size: int) -> list[str]:
    """The lines again and again, until they make at least ``size`` bytes."""
    chosen, got = [], 0
    while got < size:
        for line in lines:
            chosen.append(line)
            got += len(line.encode()) + 1
            if got >= size:
                break
    return chosen
