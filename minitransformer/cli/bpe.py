"""``bpe train``: learn a subword vocabulary from text."""

import argparse
import sys
from pathlib import Path

from minitransformer.cli.common import print_line, report, writable_file
from minitransformer.cli.options import add_number, add_output_option, add_processes_option

MOST_TOKENS = 1.1
"""Maximum tokens per word, as a multiple of byte-pair encoding's: more would make every sequence longer."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("bpe", help="learn a subword vocabulary (byte-pair encoding)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    train = actions.add_parser("train", help="learn a subword vocabulary from text files")
    shown = "text, one sentence per line (also .gz, .xz)"
    train.add_argument("inputs", type=Path, nargs="+", metavar="INPUT", help=shown)
    add_output_option(train, "tokenizer file to write")
    shown = "tokens, including special ones (default: 8000)"
    train.add_argument("--vocab-size", type=int, default=8000, metavar="N", help=shown)
    shown = "bytes: decodes any text exactly; words: words between spaces, as in subword-nmt (default: bytes)"
    train.add_argument("--mode", choices=("bytes", "words"), default="bytes", help=shown)
    train.add_argument(
        "--criterion",
        choices=("frequency", "word_piece"),
        default="frequency",
        help="which pair is merged next: the most frequent one, or, for word_piece, the one that raises the likelihood "
        "of the text most; this takes longer, and then byte-pair encoding is learned too, to compare the tokens per "
        "word (default: frequency)",
    )
    add_number(train, "--min-count", 2, "pairs that occur less often are not merged")
    add_processes_option(train)
    train.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.text import Tokenizer, count_words_in_files

    output = writable_file(arguments.output, arguments.inputs)
    progress = sys.stderr.isatty()
    words = count_words_in_files(arguments.inputs, arguments.mode, arguments.processes, progress)
    options = {"mode": arguments.mode, "min_count": arguments.min_count, "progress": progress}
    tokenizer = Tokenizer.learn(words, arguments.vocab_size, criterion=arguments.criterion, **options)
    tokenizer.save(output)
    per_word = tokenizer.count_tokens(words) / words.total()
    report(f"{output}: vocabulary of {tokenizer.vocab_size} tokens from {words.total()} words, {len(words)} distinct")
    print(f"{per_word:.2f} tokens per word of this text")
    if arguments.criterion == "frequency":
        return
    frequency = Tokenizer.learn(words, tokenizer.vocab_size, **options).count_tokens(words) / words.total()
    print(f"{frequency:.2f} with byte-pair encoding of the same size")
    if per_word > MOST_TOKENS * frequency:
        print_line(
            "bpe train",
            f"warning: tokens per word should be at most {MOST_TOKENS} times those of byte-pair encoding, got "
            f"{per_word:.2f} and {frequency:.2f}; use --criterion frequency",
        )
