"""``binarize``: encode aligned text files into memory-mapped token ids, which training opens at once at any size."""

import argparse
import sys
from pathlib import Path

from minitransformer.cli.common import report
from minitransformer.cli.options import add_number, add_parallel_texts, add_processes_option, aligned_files


def add_parser(commands: argparse._SubParsersAction) -> None:
    shown = "encode aligned text into memory-mapped token ids, for text larger than memory"
    description = "Encode aligned text into a folder of token ids, for data.train_ids."
    parser = commands.add_parser("binarize", help=shown, description=description)
    add_parallel_texts(parser)
    shown = "file made by `bpe train`, or a checkpoint"
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FILE", help=shown)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder to create")
    add_number(parser, "--max-length", 256, "leave out and count pairs with a longer side; tokens, including EOS")
    add_processes_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.text.binarize import binarize
    from minitransformer.training.corpus import load_tokenizer

    header = binarize(
        load_tokenizer(str(arguments.tokenizer)),
        aligned_files(arguments.src, arguments.tgt),
        arguments.output,
        max_length=arguments.max_length,
        processes=arguments.processes,
        progress=sys.stderr.isatty(),
    )
    report(
        f"{arguments.output}: {header.pairs} pairs, {header.n_src_tokens} source, {header.n_tgt_tokens} target tokens; "
        f"left out {header.n_empty} with an empty side, {header.n_long} longer than {header.max_length} tokens"
    )
