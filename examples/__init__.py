"""Programs around the package."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from minitransformer.cli.common import report_errors, writable_file
from minitransformer.errors import ConfigError
from minitransformer.files import write_atomically

__all__ = ["report_errors", "write_two"]


def write_two(paths: Sequence[Path], inputs: Sequence[Path], write: Callable[[BinaryIO, BinaryIO], None]) -> None:
    """Write two files that belong together, both or neither; ConfigError if they are one, or one of the inputs."""
    first, second = (writable_file(path, inputs) for path in paths)
    if first.resolve() == second.resolve():
        raise ConfigError(f"--output must name two files, got {first} twice")
    write_atomically(first, lambda one: write_atomically(second, lambda two: write(one, two)))
