"""Training text from Tatoeba, without the sentences of its own validation and test sets.

``python -m examples.tatoeba.prepare data/tatoeba_en_de`` writes ``clean.en`` and ``clean.de`` beside ``train.en`` and
``train.de``; the folder's name ends in the two languages. The sets were split by their English sides, so a sentence of
the other language may occur in two of them, with different English ones. Each training pair that shares either side
with val or test is left out, and counted.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from examples import report_errors
from minitransformer.cli.main import Parser
from minitransformer.errors import DataError
from minitransformer.files import write_text
from minitransformer.text import read_parallel


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m examples.tatoeba.prepare", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the pairs, such as data/tatoeba_en_de")
    print(prepare(parser.parse_args(argv).folder))
    return 0


def prepare(folder: Path) -> str:
    """Write the two files; returns one line that says how many pairs were kept.

    Raises:
        DataError: the folder's name does not end in two languages, or a text is missing or misaligned.
    """
    languages = folder.resolve().name.split("_")[-2:]
    if len(languages) < 2:
        raise DataError(f"{folder}: the name must end in two languages, such as tatoeba_en_de")
    texts = {
        name: read_parallel(*(str(folder / f"{name}.{language}") for language in languages))
        for name in ("train", "val", "test")
    }
    held_out = [{*val, *test} for val, test in zip(texts["val"], texts["test"], strict=True)]
    pairs = list(zip(*texts["train"], strict=True))
    kept = [pair for pair in pairs if not any(line in seen for line, seen in zip(pair, held_out, strict=True))]
    for number, language in enumerate(languages):
        write_text(folder / f"clean.{language}", "".join(f"{pair[number]}\n" for pair in kept))
    return f"{len(kept):,} of {len(pairs):,} pairs are kept; a side of the others is in val or test"


if __name__ == "__main__":
    sys.exit(main())
