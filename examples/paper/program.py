"""What the programs of the experiments share: checked reading of results, and reports."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.errors import ConfigError, DataError, MiniTransformerError, quote
from minitransformer.figures import picture_bytes
from minitransformer.files import read_bounded, write_atomically, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_RESULTS = 1 << 26
"""The largest size of a results file, bytes."""
UNFIT = LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration, RecursionError
"""Errors that occur where results are not as a program has written them."""


def read_results(path: Path) -> list[dict]:
    """The results of a sweep so far, in the order in which they were measured.

    A last line that is cut off was left by a crash, and is not read.

    Raises:
        ConfigError: ``path`` does not end in .jsonl; the reports beside it have other endings.
        DataError: a line is not a JSON object with a name and a seed, or has NaN, or two lines have the same name and
            seed, or different settings.
    """
    if path.suffix != ".jsonl":
        raise ConfigError(f"--results must end in .jsonl, got {quote(str(path), 60)}")
    results: dict[tuple, dict] = {}
    for number, line in enumerate(complete_lines(path), 1):
        result = as_result(line)
        if result is None:
            got = quote(line.decode("utf-8", "replace"), 80)
            raise DataError(f"{path}:{number}: must be a result with name and seed, without NaN, got {got}; delete it")
        key = result["name"], result["seed"]
        if key in results:
            raise DataError(f"{path}:{number}: must be the only result of {key[0]}, seed {key[1]}; delete one of them")
        first = next(iter(results.values()), result)
        if result.get("settings") != first.get("settings"):
            raise DataError(f"{path}:{number}: must have the settings of the first line; delete one of them")
        results[key] = result | {"key": key}
    return list(results.values())


def complete_lines(path: Path) -> list[bytes]:
    """The lines of a file, without a last one that is cut off; none if there is no file."""
    *lines, last = read_bounded(path, MAX_RESULTS).split(b"\n") if path.exists() else [b""]
    return lines if is_cut_off(last) else [*lines, last]


def is_cut_off(last: bytes) -> bool:
    """Whether what follows the last line end is nothing, or the beginning of a JSON object."""
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return not last or last.startswith(b"{")
    return False


def as_result(line: bytes) -> dict | None:
    """The result in a line; None if it is not a result, or has NaN or infinity, for which no difference is found."""
    try:
        result = json.loads(line, parse_constant=int, parse_float=_finite)  # int("NaN") is a ValueError
    except (ValueError, RecursionError):
        return None
    if not isinstance(result, dict) or not isinstance(result.get("name"), str):
        return None
    return result if type(result.get("seed")) is int and result["seed"] > 0 else None


def _finite(digits: str) -> float:
    """The number; ValueError for one that a float cannot hold, such as 1e999."""
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits} is too large")
    return number


@contextmanager
def showing(path: Path) -> Iterator[None]:
    """Within the block a report is made from the results in ``path``.

    Raises:
        DataError: the results lack something that the report shows.
    """
    try:
        yield
    except MiniTransformerError:
        raise
    except UNFIT as error:
        raise DataError(
            f"{path}: every result must have what the report shows, got {type(error).__name__} ({error}); delete the "
            "line that lacks it, and measure it again"
        ) from error


def write_report(results: Path, text: str, figure: "Figure | None" = None) -> None:
    """Write the table, and the picture if there is one, beside the results; print the table."""
    picture = picture_bytes(figure) if figure else b""  # made before anything is replaced
    write_text(results.with_suffix(".md"), text)
    if figure:
        write_atomically(results.with_suffix(".png"), lambda file: file.write(picture))
    print(text, end="")
