"""Constituency parsing as translation [sec. 6.3].

`linearize` a treebank, train a model on its two files, `translate` the words of the test set, `restore` the trees from
the output, and `score` them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from examples import report_errors, write_two
from examples.parsing.bracketing import corpus_bracket_score
from examples.parsing.linear_trees import delinearize, linearize
from examples.parsing.trees import MAX_WORDS, bare_tree, read_trees, without_traces, words_of
from minitransformer.cli.common import writable_file
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_output_option
from minitransformer.errors import DataError
from minitransformer.files import write_atomically
from minitransformer.text.corpus import stream_parallel


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    arguments.run(arguments)
    return 0


def build_parser() -> Parser:
    parser = Parser(prog="python -m examples.parsing", description=__doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_linearize(actions)
    restore = actions.add_parser("restore", help="make trees of the output of a parser; ill-formed ones are repaired")
    restore.add_argument("--words", type=Path, required=True, metavar="FILE", help="the sentences, one a line")
    restore.add_argument("--linear", type=Path, required=True, metavar="FILE", help="their linear forms, line by line")
    add_output_option(restore, "trees to write, one a line")
    restore.set_defaults(run=run_restore)
    score = actions.add_parser("score", help="print labeled bracket precision, recall and F1 as EVALB does")
    score.add_argument("predicted", type=Path, metavar="PREDICTED", help="trees of a parser")
    shown = "trees of a treebank, in the same order; several files are concatenated"
    score.add_argument("references", type=Path, nargs="+", metavar="REFERENCE", help=shown)
    score.add_argument("--json", action="store_true", help="print one JSON object (default: text)")
    score.set_defaults(run=run_score)
    return parser


def _add_linearize(actions: argparse._SubParsersAction) -> None:
    parser = actions.add_parser(
        "linearize",
        help="write the words and the linear forms of bracketed trees",
        description="Traces, function tags and the root are left out; so are trees that hold nothing but traces.",
    )
    shown = "trees in the bracketed form of the Penn Treebank (also .gz, .xz); several files are concatenated"
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREES", help=shown)
    shown = "the two files to write: sentences, words between spaces, and linear forms"
    parser.add_argument("-o", "--output", type=Path, nargs=2, required=True, metavar=("WORDS", "LINEAR"), help=shown)
    shown = "write part-of-speech tags in the linear form (default: XX for each word)"
    parser.add_argument("--with-tags", action="store_true", help=shown)
    parser.set_defaults(run=run_linearize)


def run_linearize(arguments: argparse.Namespace) -> None:
    write_two(arguments.output, arguments.trees, partial(_linearize, arguments))


def _linearize(arguments: argparse.Namespace, words_file: BinaryIO, linear_file: BinaryIO) -> None:
    n_trees = n_kept = 0
    for tree in chain.from_iterable(map(read_trees, arguments.trees)):
        n_trees += 1
        if bare := bare_tree(tree):
            n_kept += 1
            words_file.write(f"{' '.join(bare.words())}\n".encode())
            linear_file.write(f"{linearize(bare, with_tags=arguments.with_tags)}\n".encode())
    if not n_kept:
        raise DataError(f"{arguments.trees[0]}: there must be at least one tree with words, got none")
    print(f"{n_kept} trees, {n_trees - n_kept} left out that hold nothing but traces")


def run_restore(arguments: argparse.Namespace) -> None:
    output = writable_file(arguments.output, [arguments.words, arguments.linear])
    n_trees = n_repaired = 0

    def write(file: BinaryIO) -> None:
        nonlocal n_trees, n_repaired
        for tree, linear in _restored(arguments.words, arguments.linear):
            n_trees += 1
            # The tokens between the brackets of an output are tags, or XX.
            n_repaired += linearize(tree, with_tags=True) != linear
            file.write(f"{tree}\n".encode())

    write_atomically(output, write)
    print(f"{n_trees} trees, {n_repaired} repaired")


def _restored(words_path: Path, linear_path: Path) -> Iterator[tuple]:
    """Each tree, and the linear form from which it was made."""
    for number, (sentence, linear) in enumerate(stream_parallel(words_path, linear_path), start=1):
        words = words_of(sentence)
        if not 0 < len(words) <= MAX_WORDS:
            raise DataError(
                f"{words_path}:{number}: a sentence must have from 1 to {MAX_WORDS} words, got {len(words)}"
            )
        yield delinearize(linear, words), linear


def run_score(arguments: argparse.Namespace) -> None:
    # As `linearize`: a tree of traces alone is no sentence.
    references = filter(without_traces, chain.from_iterable(map(read_trees, arguments.references)))
    result = corpus_bracket_score(filter(without_traces, read_trees(arguments.predicted)), references)
    names = ("f1", "precision", "recall", "exact_match", "tagging_accuracy", "sentences", "skipped")
    if arguments.json:
        print(json.dumps({name: getattr(result, name) for name in names}))
        return
    print(f"F1 {result.f1:.2f}  precision {result.precision:.2f}  recall {result.recall:.2f}")
    print(f"exact match {result.exact_match:.2f}  tagging accuracy {result.tagging_accuracy:.2f}")
    print(f"{result.sentences} sentences")
    if result.skipped:
        print(f"skipped, because their words are not those of the reference: {result.skipped}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
