"""Options that several commands share."""

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from minitransformer.blas import core_count
from minitransformer.config import Config, TranslationConfig
from minitransformer.errors import CheckpointError, ConfigError, quote


def at_least_one(text: str, kind: type = int) -> float:
    """The argparse type of a number of this kind from 1 to 999,999,999."""
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 999_999_999:
        what = "an integer" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"must be {what} from 1 to 999999999, got {quote(text)}")
    return value


def add_number(parser: argparse.ArgumentParser, name: str, default: float, what: str) -> None:
    """Adds an option for a number of at least 1, of the same type as its default; ``what`` is its help text."""
    kind = type(default)
    metavar, shown = ("N" if kind is int else "X"), f"{what} (default: {default:g})"
    parser.add_argument(name, type=partial(at_least_one, kind=kind), default=default, metavar=metavar, help=shown)


def add_output_option(parser: argparse.ArgumentParser, what: str, metavar: str = "FILE") -> None:
    """Adds -o, with ``what`` as its help text."""
    parser.add_argument("-o", "--output", type=Path, required=True, metavar=metavar, help=what)


def add_processes_option(parser: argparse.ArgumentParser) -> None:
    """Adds --processes, for commands that read large files."""
    shown = "number of processes that share the work on large files (default: the number of cores)"
    parser.add_argument("--processes", type=at_least_one, default=core_count(), metavar="N", help=shown)


def add_config_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds CONFIG, with ``what`` as its help text, and --set."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help=what)
    shown = "override a key of CONFIG; may be given several times (default: CONFIG as it is)"
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="SECTION.KEY=VALUE", help=shown)


def add_parallel_texts(parser: argparse.ArgumentParser) -> None:
    """Adds --src and --tgt: the files of two languages, in the same order."""
    for name, what in (("--src", "source"), ("--tgt", "target")):
        shown = f"{what} text, one sentence per line (also .gz, .xz); several files are concatenated"
        parser.add_argument(name, type=Path, nargs="+", required=True, metavar="FILE", help=shown)


def aligned_files(src: Sequence[Path], tgt: Sequence[Path]) -> list[tuple[Path, Path]]:
    """The (source file, target file) pairs of `add_parallel_texts`; ConfigError if their numbers differ."""
    if len(src) != len(tgt):
        raise ConfigError(f"--src and --tgt must name the same number of files, got {len(src)} and {len(tgt)}")
    return list(zip(src, tgt, strict=True))


def add_device_option(parser: argparse.ArgumentParser, default: str | None, what: str) -> None:
    """Adds --device, with ``what`` as its help text."""
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default=default, help=what)


def add_model_options(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Adds --model, --checkpoint and --device. ``also``: appended to the help of --checkpoint"""
    which = parser.add_mutually_exclusive_group(required=True)
    named = "a model that comes with a checkout, such as en-de"
    which.add_argument("--model", type=_known_model, dest="checkpoint", metavar="NAME", help=named)
    shown = f"checkpoint of the model, written by train or average, or the training.directory of a run{also}"
    which.add_argument("--checkpoint", type=Path, metavar="FILE", help=shown)
    add_device_option(parser, "auto", "device to run the model on; auto is the GPU if one is usable (default: auto)")


def _known_model(name: str) -> Path:
    from minitransformer.pipeline import find_checkpoint

    try:
        return find_checkpoint(name)
    except CheckpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds the settings of the [translation] section; the default of each is that of the checkpoint's config."""
    group = parser.add_argument_group("search", "default of each: its value in the checkpoint's config")
    for setting in fields(TranslationConfig):
        name, metavar = setting.name.replace("_", "-"), "N" if setting.type is int else "X"
        group.add_argument(f"--{name}", type=setting.type, metavar=metavar, help=setting.metadata["meaning"])


def search_settings(config: Config, arguments: argparse.Namespace) -> TranslationConfig:
    """The [translation] section of a checkpoint's config, with the options of `add_search_options` that were given."""
    given = {setting.name: getattr(arguments, setting.name) for setting in fields(TranslationConfig)}
    return replace(config.translation, **{name: value for name, value in given.items() if value is not None})
