"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from minitransformer.errors import ConfigError

TEMPORARY_SUFFIX = ".partial"


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Fill a temporary file beside ``path`` by ``write(file)`` and put it in place of ``path`` in one step.

    Whenever the process or the machine dies, ``path`` is the whole old file or the whole new one. If ``write`` fails,
    the temporary file is removed and the old file stays. A link stays a link, and a file keeps its permissions.

    Raises:
        ConfigError: ``path`` is a folder, a device or a pipe, which a file must not take the place of.
        OSError: the file cannot be written; it names ``path``.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise ConfigError(f"output must be an ordinary file, got {path}")
    temporary = None
    try:
        # A name of its own: no other file, and no other process that writes the same path, is in the way.
        descriptor, temporary = tempfile.mkstemp(TEMPORARY_SUFFIX, f".{path.name}.", path.parent)
        with open(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())  # the contents must be on the disk before the name points to them
        os.chmod(temporary, _permissions(path))
        os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    _sync_folder(path.parent)


def remove_temporaries(folder: str | Path, pattern: str) -> None:
    """Delete what a process that was killed in ``write_atomically`` left in ``folder``.

    pattern: the names it wrote there, such as ``"update_*.npz"``. Other people may call their files ``.partial`` too.
    """
    for stray in Path(folder).glob(f".{pattern}.*{TEMPORARY_SUFFIX}"):
        stray.unlink(missing_ok=True)


def _permissions(path: Path) -> int:
    """Those that the file has; those of a new file if there is none."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)  # the only way to read it
    os.umask(umask)
    return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and the rename is on the disk already
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the rename itself
    finally:
        os.close(descriptor)
