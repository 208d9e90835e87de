"""``translate``: standard input to standard output, or sentence by sentence at a terminal."""

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from minitransformer.cli.common import BAD_INPUT, open_model, print_line
from minitransformer.cli.options import add_model_options, add_search_options
from minitransformer.errors import ConfigError, DataError, MiniTransformerError
from minitransformer.files import MAX_LINE

DESCRIPTION = """\
Translate standard input, one sentence a line, to standard output, block by block as it is read; prompt if it is a
terminal. A line that is longer than --max-input-length, or not UTF-8, gives an empty line, a message that names it,
and, at the end, exit code 2. If the command is interrupted, it has printed whole lines only, in order."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "translate", help="translate standard input, or what is typed", description=DESCRIPTION
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
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="json: for each sentence one line, an object with its number, counted from 1, and its translations, each "
        "with its text and score (default: text)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    model, tokenizer, search = open_model(arguments)
    n_best = arguments.n_best
    if not 1 <= n_best <= search.beam_size:
        raise ConfigError(f"--n-best must be from 1 to the beam size {search.beam_size}, got {n_best}")

    from minitransformer.generation import hypothesis_text, search_blocks, search_lines

    def shown(block: list, first: int = 1) -> str:
        texts = ([(hypothesis_text(tokenizer, each), each.score) for each in best] for best in block)
        form = _json if arguments.format == "json" else partial(_text, numbered=n_best > 1)
        return "\n".join(form(number, best) for number, best in enumerate(texts, start=first))

    if sys.stdin.isatty():
        _converse(lambda line: shown(search_lines(model, tokenizer, [line], search, n_best)))
        return 0
    refused: list[MiniTransformerError] = []

    def report(error: MiniTransformerError) -> None:
        refused.append(error)
        print_line("translate", f"{error}; its translation is an empty line")

    progress = sys.stderr.isatty()
    blocks = search_blocks(model, tokenizer, stdin_lines(report), search, n_best, progress, report)
    return _print_whole(blocks, shown) or (BAD_INPUT if refused else 0)


def stdin_lines(report: Callable[[DataError], object]) -> Iterator[str]:
    r"""Lines of standard input, without line ends and byte-order mark; only ``\n`` separates lines.

    report: called with the error of a line that is not UTF-8 or has MAX_LINE bytes, which is then an empty line
    """
    source = sys.stdin.buffer
    for number, line in enumerate(iter(lambda: source.readline(MAX_LINE), b""), start=1):
        text, where = "", f"standard input:{number}"
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            while (rest := source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass  # what is left of the line is never held
            report(DataError(f"{where}: must have less than {MAX_LINE} bytes; split it"))
        else:
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                report(DataError(f"{where}: must be UTF-8, got byte 0x{error.object[error.start]:02x}"))
        yield text.removesuffix("\n").removesuffix("\r")


def _text(number: int, best: list[tuple[str, float]], numbered: bool) -> str:
    """The hypotheses of a sentence, each on its own line, after the sentence's number if they are ``numbered``."""
    return "\n".join(f"{number}\t{text}" if numbered else text for text, _ in best)


def _json(number: int, best: list[tuple[str, float]]) -> str:
    translations = [{"text": text, "score": score} for text, score in best]
    return json.dumps({"number": number, "translations": translations}, ensure_ascii=False)


def _print_whole(blocks: Iterable[list], shown: Callable[[list, int], str]) -> int:
    """Print each block as it comes; the exit code. A signal that arrives while one is printed is acted on afterwards.

    At any other time SIGINT raises KeyboardInterrupt, and SIGTERM and SIGHUP end the process: nothing is buffered then.
    """
    from minitransformer.training.signals import StopRequest

    printed = 0
    for block in blocks:
        with StopRequest() as stop:
            print(shown(block, printed + 1), flush=True)
        if stop.signal is not None:
            print_line("translate", "interrupted")
            return 128 + stop.signal
        printed += len(block)
    return 0


def _converse(answer: Callable[[str], str]) -> None:
    """Answer sentence by sentence until Ctrl-D; one that cannot be translated gets a message and a new prompt."""
    if importlib.util.find_spec("readline"):
        importlib.import_module("readline")  # gives input() the arrow keys and a history
    print("Type a sentence to translate; Ctrl-D ends.", file=sys.stderr)
    prompt = "> " if sys.stdout.isatty() else ""  # a file of translations gets translations alone
    while True:
        try:
            print(answer(input(prompt)))
        except EOFError:
            print(file=sys.stderr)
            return
        except (MiniTransformerError, UnicodeDecodeError) as error:
            print(error, file=sys.stderr)
