"""Shared by several commands: messages of errors, lines of standard input, writable outputs, loading a model."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from minitransformer.cli.options import search_options
from minitransformer.config import Config, TranslationConfig
from minitransformer.errors import CheckpointError, ConfigError, DataError, MiniTransformerError, printable
from minitransformer.files import MAX_LINE, ordinary_file

if TYPE_CHECKING:
    from minitransformer.models import Model
    from minitransformer.text import Tokenizer

BAD_INPUT, INTERRUPTED, FAULT = 2, 130, 1
"""Exit codes: bad input; SIGINT, as shells report it; a bug in the program."""


MAX_MESSAGE = 2000
"""Characters of a message."""


def explained(error: BaseException) -> tuple[str, int]:
    """(message for the user, exit code) of an exception; FAULT if it is a bug in the program."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, MiniTransformerError):
        return str(error), BAD_INPUT
    if isinstance(error, MemoryError):
        from minitransformer.cuda_diagnosis import memory_trouble

        remedy = (
            "take smaller batches (data.src_tokens, data.tgt_tokens, translation.batch_tokens) or a smaller model; "
            "`minitransformer plan` estimates the memory of an update"
        )
        return f"not enough memory ({memory_trouble(error)}); {remedy}", BAD_INPUT
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", BAD_INPUT
    return f"{type(error).__name__}: {error}", FAULT


def print_line(command: str, message: str) -> None:
    """Prints ``message`` as one line on standard error, after the name of the command; control characters escaped."""
    line = printable(message, MAX_MESSAGE).removeprefix(f"{command}: ")
    with contextlib.suppress(OSError):  # if standard error is closed or full, only the exit code remains
        # A progress bar, perhaps that of a rank of this job, may stand in the last line of a terminal: it is erased.
        begin = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{begin}minitransformer {command}: {line}", file=sys.stderr)


def report_errors(main: Callable[..., int]) -> Callable[..., int]:
    """``main`` of a program with the errors of its user as one line on standard error and exit code 2, 130 after
    Ctrl-C."""

    @wraps(main)
    def wrapped(*arguments: object) -> int:
        try:
            return main(*arguments)
        except (Exception, KeyboardInterrupt) as error:
            message, code = explained(error)
            if code == FAULT:
                raise
            program = Path(sys.argv[0])  # of a folder that is run by -m its __main__.py
            report(f"{program.parent.name if program.stem == '__main__' else program.stem}: {message}", sys.stderr)
            return code

    return wrapped


def report(text: str, file: TextIO | None = None) -> None:
    """Prints what was done, on standard output by default, as one line: control characters in names are escaped."""
    print(printable(text, MAX_MESSAGE), file=file)


def stdin_lines(report: Callable[[DataError], object] | None = None) -> Iterator[str]:
    r"""Lines of standard input, without line ends and byte-order mark; only ``\n`` separates lines.

    report: called with the error of a line that is not UTF-8 or too long, which is then an empty line (None: raise it)

    Raises:
        DataError: a line is not UTF-8 or has MAX_LINE bytes (with the line number), and there is no ``report``.
    """
    source = sys.stdin.buffer
    for number, line in enumerate(iter(lambda: source.readline(MAX_LINE), b""), start=1):
        try:
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                while (rest := source.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass  # what is left of the line is never held
                raise DataError(f"standard input:{number}: must have less than {MAX_LINE} bytes; split it")
            yield _decoded(line, number)
        except DataError as error:
            if report is None:
                raise
            report(error)
            yield ""


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input:{number}: must be UTF-8, got byte 0x{line[error.start]:02x}") from error


def writable_file(path: Path, inputs: Iterable[Path] = ()) -> Path:
    """``path``, if a file can be written there; checked before long work whose result would otherwise be lost.

    Raises:
        ConfigError: the folder does not exist or is not writable, or ``path`` is not an ordinary file, is not
            writable or is one of the ``inputs``.
    """
    target = ordinary_file(path)
    if target.exists() and any(each.exists() and target.samefile(each) for each in inputs):
        raise ConfigError(f"output must not be one of the inputs, got {path}")
    if target.exists() and not os.access(target, os.W_OK):
        raise ConfigError(f"output must be a writable file, got {path}")
    if not target.parent.is_dir():
        raise ConfigError(f"output must be in an existing folder, got {path}; create {target.parent} first")
    if not os.access(target.parent, os.W_OK):
        raise ConfigError(f"output must be in a writable folder, got {path}")
    return path


def open_model(arguments: argparse.Namespace) -> "tuple[Model, Tokenizer, TranslationConfig]":
    """The model of --checkpoint on --device, read-only; its tokenizer, and the search settings.

    Raises:
        CheckpointError: the file is missing or damaged, or contains no tokenizer.
        ConfigError: a search option is out of range.
        BackendError: the device is not usable.
    """
    from minitransformer.checkpoints import load_checkpoint

    checkpoint = load_checkpoint(arguments.checkpoint, with_optimizer=False)
    search = checkpoint.search(**search_options(arguments))
    model, tokenizer = checkpoint.build(arguments.device)
    model.parameters.prepare_for_inference()
    if tokenizer is None:
        raise CheckpointError(
            f"{arguments.checkpoint} must contain a tokenizer, got a model that was trained on token ids only"
        )
    return model, tokenizer, search


def with_vocabulary(config: Config) -> Config:
    """``config`` with the vocabulary size of its tokenizer, as training would take it, unless it has a size.

    Raises:
        ConfigError: there is neither a size nor a tokenizer.
    """
    from minitransformer.text import Tokenizer

    if config.model.vocab_size:
        return config
    if not config.data.tokenizer:
        raise ConfigError("model.vocab_size must be given where there is no data.tokenizer, got 0")
    vocab_size = Tokenizer.load(config.data.tokenizer).vocab_size
    return replace(config, model=replace(config.model, vocab_size=vocab_size))
