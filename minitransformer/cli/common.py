"""Shared by several commands: common options, lines of standard input, writable outputs, loading a model."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.blas import core_count
from minitransformer.errors import CheckpointError, ConfigError, DataError, MiniTransformerError
from minitransformer.files import ordinary_file

if TYPE_CHECKING:
    from minitransformer.config import TranslationConfig
    from minitransformer.models import Transformer
    from minitransformer.text import Tokenizer


BAD_INPUT, INTERRUPTED, FAULT = 2, 130, 1
"""Exit codes: bad input; SIGINT, as shells report it; a bug in the program."""


def explained(error: BaseException) -> tuple[str, int]:
    """(message for the user, exit code) of an exception. An exception that is a bug in the program is raised again."""
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
    raise error


def print_line(command: str, message: str) -> None:
    """Prints ``message`` as one line on standard error, after the name of the command."""
    line = " ".join(message.split("\n")).removeprefix(f"{command}: ")
    with contextlib.suppress(OSError):  # if standard error is closed or full, only the exit code remains
        print(f"minitransformer {command}: {line}", file=sys.stderr)


def stdin_lines() -> Iterator[str]:
    r"""Lines of standard input, without line ends; only ``\n`` separates lines.

    Raises:
        DataError: a line is not UTF-8 (with the line number).
    """
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
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


def at_least_one(text: str) -> int:
    """The argparse type of a count."""
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0 and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to 999999999, got {text[:60]!r}")
    return int(text)


def add_config_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds CONFIG, with ``what`` as its help text, and --set."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help=what)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="SECTION.KEY=VALUE",
        help="override a key of CONFIG; may be given several times (default: CONFIG as it is)",
    )


def add_parallel_texts(parser: argparse.ArgumentParser) -> None:
    """Adds --src and --tgt: the files of two languages, in the same order."""
    for name, what in (("src", "source"), ("tgt", "target")):
        parser.add_argument(
            f"--{name}",
            type=Path,
            nargs="+",
            required=True,
            metavar="FILE",
            help=f"{what} text, one sentence per line (also .gz, .xz); several files are concatenated",
        )


def aligned_files(arguments: argparse.Namespace) -> list[tuple[Path, Path]]:
    """The (source file, target file) pairs of `add_parallel_texts`; ConfigError if their numbers differ."""
    if len(arguments.src) != len(arguments.tgt):
        raise ConfigError(
            f"--src and --tgt must name the same number of files, got {len(arguments.src)} and {len(arguments.tgt)}"
        )
    return list(zip(arguments.src, arguments.tgt, strict=True))


def add_processes_option(parser: argparse.ArgumentParser) -> None:
    """Adds --processes, for commands that read large files."""
    parser.add_argument(
        "--processes",
        type=at_least_one,
        default=core_count(),
        metavar="N",
        help="number of processes that share the work on large files (default: the number of cores)",
    )


def add_model_options(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Adds --checkpoint and --device. ``also``: appended to the help of --checkpoint"""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="FILE",
        help=f"checkpoint of the model, written by train or average{also}",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="auto",
        help="device to run the model on; auto is the GPU if one is usable (default: auto)",
    )


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds the settings of the [translation] section; the default of each is that of the checkpoint's config."""
    group = parser.add_argument_group("search", "default of each: its value in the checkpoint's config")
    group.add_argument(
        "--beam-size", type=int, metavar="N", help="hypotheses kept per sentence, 1 is greedy (paper: 4)"
    )
    group.add_argument(
        "--alpha", type=float, metavar="X", help="exponent of the length penalty ((5 + |Y|) / 6)^alpha (paper: 0.6)"
    )
    group.add_argument(
        "--max-extra", type=int, metavar="N", help="maximum output length minus input length, in tokens (paper: 50)"
    )
    group.add_argument(
        "--batch-tokens", type=int, metavar="N", help="maximum of padded source tokens x beam size in a batch"
    )


def search_options(arguments: argparse.Namespace) -> dict[str, int | float]:
    """The options of `add_search_options` that were given on the command line."""
    options = ("beam_size", "alpha", "max_extra", "batch_tokens")
    return {name: getattr(arguments, name) for name in options if getattr(arguments, name, None) is not None}


def open_model(arguments: argparse.Namespace) -> "tuple[Transformer, Tokenizer, TranslationConfig]":
    """The model of --checkpoint on --device, its tokenizer, and the search settings.

    Raises:
        CheckpointError: the file is missing or damaged, or contains no tokenizer.
        ConfigError: a search option is out of range.
        BackendError: the device is not usable.
    """
    from minitransformer.checkpoints import load_checkpoint

    checkpoint = load_checkpoint(arguments.checkpoint, with_optimizer=False)
    search = replace(checkpoint.config.translation, **search_options(arguments))
    model, tokenizer = checkpoint.build(arguments.device)
    if tokenizer is None:
        raise CheckpointError(
            f"{arguments.checkpoint} must contain a tokenizer, got a model that was trained on token ids only"
        )
    return model, tokenizer, search
