"""Leave out unsuitable sentence pairs, and report how many for each reason.

python -m examples.wmt14.clean --src FILE... --tgt FILE... -o SRC TGT
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from examples import report_errors, write_two
from examples.wmt14.cleaning import REASONS, CleaningRules, clean
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number, add_parallel_texts, add_processes_option, aligned_files
from minitransformer.errors import ConfigError
from minitransformer.text.corpus import stream_parallel


def build_parser() -> Parser:
    parser = Parser(
        prog="python -m examples.wmt14.clean",
        description="Leave out pairs that are empty, copies, too long, of unequal length, in another script or "
        "duplicates, in one pass, and report each step. Memory grows by 8 bytes per pair.",
    )
    add_parallel_texts(parser)
    parser.add_argument(
        "-o", "--output", type=Path, nargs=2, required=True, metavar=("SRC", "TGT"), help="the two files to write"
    )
    add_number(parser, "--max-words", 250, "maximum words of a side")
    add_number(parser, "--max-ratio", 2.0, "maximum words of one side per word of the other")
    add_number(parser, "--max-word", 100, "maximum characters of a word")
    for side in ("src", "tgt"):
        shown = "script to which more than half of the letters of this side must belong, such as Latin (default: any)"
        parser.add_argument(f"--{side}-script", default="", metavar="NAME", help=shown)
    parser.add_argument(
        "--normalize-punctuation",
        nargs=2,
        default=(),
        choices=("cs", "de", "en", "es", "fr"),
        metavar=("SRC", "TGT"),
        help="languages of the two sides (cs, de, en, es, fr), by whose rules quotation marks, dashes and so on become "
        "those of ASCII, as by Moses (default: left as they are)",
    )
    add_processes_option(parser)
    return parser


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    files = aligned_files(arguments.src, arguments.tgt)
    counts: Counter[str] = Counter()
    write_two(arguments.output, [*arguments.src, *arguments.tgt], partial(_clean, arguments, files, counts))
    _report(counts)
    return 0


def _clean(
    arguments: argparse.Namespace, files: Iterable[tuple[Path, Path]], counts: Counter[str], *outputs: BinaryIO
) -> None:
    names = ("max_words", "max_ratio", "max_word", "src_script", "tgt_script")
    rules = CleaningRules(
        **{name: getattr(arguments, name) for name in names}, punctuation=arguments.normalize_punctuation
    )
    pairs = chain.from_iterable(stream_parallel(*pair) for pair in files)
    with tqdm(desc="clean", unit="pair", disable=not sys.stderr.isatty()) as bar:
        for kept in clean(pairs, rules, counts, arguments.processes):
            for output, lines in zip(outputs, zip(*kept, strict=True), strict=bool(kept)):
                output.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
            bar.update(counts["pairs"] - bar.n)
    if not counts["kept"]:
        raise ConfigError(f"at least one pair must be kept, got none of {counts['pairs']}; relax the options")


def _report(counts: Counter[str]) -> None:
    meanings = {"pairs": "pairs read", "normalized": "changed by normalizing", "kept": "kept"}
    for name in ("pairs", "normalized", *REASONS, "kept"):
        what = meanings.get(name, f"left out: {name}")
        print(f"{what:26}{counts[name]:>12,}{100 * counts[name] / counts['pairs']:>9.2f} %")


if __name__ == "__main__":
    sys.exit(main())
