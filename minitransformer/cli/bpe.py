"""``bpe train | encode | decode``: learn word pieces, cut lines into them, and put them together again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minitransformer.cli.common import stdin_lines, writable_file
from minitransformer.errors import DataError


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("bpe", help="learn word pieces (byte-pair encoding) and apply them")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    train = actions.add_parser("train", help="learn a vocabulary of word pieces from text files")
    train.add_argument("inputs", type=Path, nargs="+", metavar="INPUT", help="text, one sentence a line (.gz, .xz too)")
    train.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="tokenizer file to write")
    train.add_argument(
        "--vocab-size", type=int, default=8000, metavar="N", help="word pieces, special ids included (default: 8000)"
    )
    train.add_argument(
        "--mode",
        choices=("bytes", "words"),
        default="bytes",
        help="bytes: any text comes back exactly; words: words between spaces, as in subword-nmt (default: bytes)",
    )
    train.set_defaults(run=run_train)

    for name, run, what in (
        ("encode", run_encode, "cut lines of standard input into word pieces, to standard output"),
        ("decode", run_decode, "put word pieces of standard input together to lines, to standard output"),
    ):
        action = actions.add_parser(name, help=what, description=what)
        action.add_argument("--tokenizer", type=Path, required=True, metavar="FILE", help="made by `bpe train`")
        action.add_argument(
            "--ids", action="store_true", help="numbers instead of written-out pieces (default: pieces)"
        )
        action.set_defaults(run=run)


def run_train(arguments: argparse.Namespace) -> None:
    from minitransformer.text import Tokenizer, read_lines

    output = writable_file(arguments.output, arguments.inputs)
    lines = [line for path in arguments.inputs for line in read_lines(path)]
    tokenizer = Tokenizer.train(lines, arguments.vocab_size, arguments.mode, progress=sys.stderr.isatty())
    tokenizer.save(output)
    print(f"{output}: {tokenizer.vocab_size} word pieces from {len(lines)} lines")


def run_encode(arguments: argparse.Namespace) -> None:
    from minitransformer.text import Tokenizer

    tokenizer = Tokenizer.load(arguments.tokenizer)
    for line in stdin_lines():
        print(" ".join(map(str, tokenizer.encode(line))) if arguments.ids else tokenizer.segment(line))


def run_decode(arguments: argparse.Namespace) -> None:
    from minitransformer.text import Tokenizer

    tokenizer = Tokenizer.load(arguments.tokenizer)
    for number, line in enumerate(stdin_lines(), start=1):
        try:
            print(tokenizer.decode(_ids(line)) if arguments.ids else tokenizer.unsegment(line))
        except DataError as error:
            raise DataError(f"standard input:{number}: {error}") from error


def _ids(line: str) -> list[int]:
    try:
        return [int(word) for word in line.split()]
    except ValueError as error:
        raise DataError(f"token ids must be whole numbers with spaces between, got {line[:60]!r}") from error
