"""Training text for the English-German model: Tatoeba without the sentences of its own validation and test sets.

``python -m examples.en_de.prepare data/tatoeba_en_de`` writes ``clean.en`` and ``clean.de`` beside ``train.en`` and
``train.de``. The sets were split by their English sides, so a German sentence may stand in two of them, under two
English ones: each training pair that has either side in common with val or test is left out, and counted.
"""

import sys
from pathlib import Path

from minitransformer.files import write_text
from minitransformer.text import read_parallel


def prepare(folder: Path) -> str:
    """Write the two files; returns one line that says how many pairs were kept.

    Raises:
        DataError: a file is missing, or the two sides do not have as many lines.
    """
    held_out = [set().union(*sides) for sides in zip(*(_pairs(folder, name) for name in ("val", "test")), strict=True)]
    pairs = list(zip(*_pairs(folder, "train"), strict=True))
    kept = [pair for pair in pairs if not any(line in seen for line, seen in zip(pair, held_out, strict=True))]
    for number, language in enumerate(("en", "de")):
        write_text(folder / f"clean.{language}", "".join(f"{pair[number]}\n" for pair in kept))
    return f"{len(kept):,} of {len(pairs):,} pairs are kept; a side of the others is in val or test"


def _pairs(folder: Path, name: str) -> tuple[list[str], list[str]]:
    return read_parallel(str(folder / f"{name}.en"), str(folder / f"{name}.de"))


if __name__ == "__main__":
    print(prepare(Path(sys.argv[1])))
