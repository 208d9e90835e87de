"""``minitransformer COMMAND``: finds the command, runs it, and turns a user's mistake into one line and exit code 2."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from minitransformer import __version__
from minitransformer.cli import average, binarize, bpe, doctor, evaluate, imports, launch, plan, plot, train, translate
from minitransformer.cli.common import BAD_INPUT, FAULT, INTERRUPTED, explain, print_line
from minitransformer.errors import printable

COMMANDS = (bpe, binarize, plan, train, launch, average, translate, evaluate, plot, imports, doctor)
"""In the order in which a new user needs them. Each imports what is heavy only when it runs."""

RETIRED_COMMANDS = {
    "paper": "read docs/paper.md, which python -m docs.build_paper writes",
    "trees": "run python -m examples.parsing in the checkout",
    "clean": "run python -m examples.wmt14.clean in the checkout",
    "data": "run python -m examples.data in the checkout",
    "bpe encode": "call Tokenizer.load(FILE).encode(LINE), of minitransformer.text, in Python",
    "bpe decode": "call Tokenizer.load(FILE).decode(IDS), of minitransformer.text, in Python",
    "bpe import": "nothing: bpe train learns the merges again",
    "bpe export": "nothing: the file of bpe train has the merges, one a line",
    "plot architecture": "run python -m examples.paper.architecture in the checkout",
    "doctor --ids": "nothing: train checks the ids when it opens them",
}
"""What to do instead of each."""

PIPE_CLOSED = 141
"""The exit code that a shell shows for SIGPIPE."""


class Commands(argparse._SubParsersAction):
    """The help of a command begins with its line in the list of commands, unless it has a description of its own."""

    def add_parser(self, name: str, *, help: str, **options) -> argparse.ArgumentParser:  # noqa: A002 - argparse's name
        options = {"description": f"{help[0].upper()}{help[1:]}."} | options
        return super().add_parser(name, help=help, **options)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports an error in one line, and keeps the line breaks of descriptions."""

    def __init__(self, *arguments, **options):
        formatter = partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
        super().__init__(*arguments, **options, allow_abbrev=False, formatter_class=formatter)
        self.register("action", "parsers", Commands)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {printable(message, 1000)}; see {self.prog} --help\n")


def build_parser() -> Parser:
    parser = Parser(
        prog="minitransformer",
        description='Train the Transformer of "Attention Is All You Need" and translate with it.',
    )
    parser.add_argument("--version", action="version", version=f"minitransformer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0, or 2 for bad input, 130 if interrupted, 141 if the reader has gone."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Translations are UTF-8 and end in \n on every system; a file name that is not UTF-8 is shown escaped.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    given = " ".join((sys.argv[1:] if argv is None else argv)[:2])
    for command, instead in RETIRED_COMMANDS.items():
        if f"{given} ".startswith(f"{command} "):
            print_line(command, f"{instead}; see docs/changes.md")
            return BAD_INPUT
    try:
        return _run(build_parser().parse_args(argv))
    except SystemExit as stop:  # argparse has printed help, or what is wrong
        return stop.code or 0
    except KeyboardInterrupt:  # before the command began, or as it ended
        return INTERRUPTED
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # full or gone; Python flushes once more at exit, which must not find that again
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(arguments: argparse.Namespace) -> int:
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        return PIPE_CLOSED
    except BaseException as error:
        message, code = explain(error)
        if code == FAULT:
            raise
        print_line(" ".join(filter(None, (arguments.command, getattr(arguments, "action", "")))), message)
        return code


if __name__ == "__main__":
    sys.exit(main())
