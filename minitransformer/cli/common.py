"""Shared by several commands: error messages, writable outputs, loading a model."""

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.options import search_settings
from minitransformer.config import Config, TranslationConfig
from minitransformer.cuda_diagnosis import is_out_of_memory, memory_trouble
from minitransformer.errors import ConfigError, MiniTransformerError, printable
from minitransformer.files import ordinary_file, write_error

if TYPE_CHECKING:
    from minitransformer.models import Model
    from minitransformer.text import Tokenizer

BAD_INPUT, INTERRUPTED, FAULT = 2, 130, 1
"""Exit codes: bad input; SIGINT, as shells report it; a bug in the program."""

MAX_MESSAGE = 2000
"""Maximum characters of a message."""


def explain(error: BaseException) -> tuple[str, int]:
    """(message for the user, exit code) of an exception; FAULT if it is a bug in the program."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, MiniTransformerError):
        return str(error), BAD_INPUT
    if is_out_of_memory(error):
        remedy = (
            "take smaller batches (data.src_tokens, data.tgt_tokens, translation.batch_tokens) or a smaller model; "
            "`minitransformer plan` estimates the memory of an update"
        )
        return f"not enough memory ({memory_trouble(error)}); {remedy}", BAD_INPUT
    if isinstance(error, OSError):
        told = error.strerror or str(error)
        if error.filename:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            told = f"{error.filename}: {write_error(error) if is_full else told}"
        return told, BAD_INPUT
    return f"{type(error).__name__}: {error}", FAULT


def print_line(command: str, message: str) -> None:
    """Prints ``message`` as one line on standard error, after the name of the command; control characters escaped."""
    line = printable(message, MAX_MESSAGE).removeprefix(f"{command}: ")
    with contextlib.suppress(OSError):  # if standard error is closed or full, only the exit code remains
        # A progress bar, perhaps that of a rank of this job, may be in the last line of a terminal: it is erased.
        begin = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{begin}minitransformer {command}: {line}", file=sys.stderr)


def report_errors(main: Callable[..., int]) -> Callable[..., int]:
    """``main`` of a separate program, with users' errors turned into one line on standard error and exit code 2, or 130
    after Ctrl-C."""

    @wraps(main)
    def wrapped(*arguments: object) -> int:
        try:
            return main(*arguments)
        except (Exception, KeyboardInterrupt) as error:
            message, code = explain(error)
            if code == FAULT:
                raise
            program = Path(sys.argv[0])  # of a folder that is run by -m its __main__.py
            name = program.parent.name if program.stem == "__main__" else program.stem
            print(printable(f"{name}: {message}", MAX_MESSAGE), file=sys.stderr)
            return code

    return wrapped


def report(text: str) -> None:
    """Prints what was done, on standard output, as one line: control characters in names are escaped."""
    print(printable(text, MAX_MESSAGE))


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
    """The model of --model or --checkpoint on --device, read-only; its tokenizer, and the search settings.

    Raises:
        CheckpointError: the file is missing or damaged, or contains no tokenizer.
        ConfigError: a search option is out of range.
        BackendError: the device is not usable.
    """
    from minitransformer.checkpoints import load_checkpoint
    from minitransformer.pipeline import build_with_tokenizer, find_checkpoint

    checkpoint = load_checkpoint(find_checkpoint(arguments.checkpoint), with_optimizer=False)
    search = search_settings(checkpoint.config, arguments)
    return *build_with_tokenizer(checkpoint, arguments.device), search


def with_vocabulary(config: Config) -> Config:
    """``config`` with the vocabulary size of its tokenizer, as in training, unless it has a size.

    Raises:
        ConfigError: there is neither a size nor a tokenizer.
    """
    from minitransformer.training.corpus import load_tokenizer

    if config.model.vocab_size:
        return config
    if not config.data.tokenizer:
        raise ConfigError("model.vocab_size must be given where there is no data.tokenizer, got 0")
    tokenizer = load_tokenizer(config.data.tokenizer)
    sizes = {"vocab_size": tokenizer.vocab_size, "src_vocab_size": tokenizer.src_vocab_size}
    return replace(config, model=replace(config.model, **sizes))
