"""``translate``: standard input to standard output, or sentence by sentence at a terminal."""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable

from minitransformer.cli.common import open_model, stdin_lines
from minitransformer.cli.options import add_model_options, add_search_options
from minitransformer.errors import ConfigError, MiniTransformerError


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate standard input, or what is typed",
        description="Translate standard input, one sentence a line, to standard output; prompt if it is a terminal.",
    )
    add_model_options(parser)
    add_search_options(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        default=1,
        metavar="N",
        help="hypotheses printed per sentence, best first, each on its own line after the sentence's number, counted "
        "from 1, and a tab; at most the beam size (default: 1, without number)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    model, tokenizer, search = open_model(arguments)
    if not 1 <= arguments.n_best <= search.beam_size:
        raise ConfigError(f"--n-best must be from 1 to the beam size {search.beam_size}, got {arguments.n_best}")

    from minitransformer.generation import translate_lines

    def answer(lines: list[str], progress: bool = False) -> list[str]:
        translations = translate_lines(model, tokenizer, lines, search, n_best=arguments.n_best, progress=progress)
        if arguments.n_best == 1:
            return translations
        return [f"{number}\t{line}" for number, best in enumerate(translations, start=1) for line in best]

    if sys.stdin.isatty():
        _converse(answer)
    else:
        for line in answer(list(stdin_lines()), progress=sys.stderr.isatty()):
            print(line)


def _converse(answer: Callable[[list[str]], list[str]]) -> None:
    """Answer sentence by sentence until Ctrl-D; one that cannot be translated gets a message and a new prompt."""
    if importlib.util.find_spec("readline"):
        importlib.import_module("readline")  # gives input() the arrow keys and a history
    print("Type a sentence to translate; Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            print(*answer([input("> ")]), sep="\n")
        except EOFError:
            print(file=sys.stderr)
            return
        except (MiniTransformerError, UnicodeDecodeError) as error:
            print(error, file=sys.stderr)
