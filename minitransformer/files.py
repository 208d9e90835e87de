"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".partial"


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Fill a temporary file beside ``path`` by ``write(file)`` and put it in place of ``path`` in one step.

    Whenever the process or the machine dies, ``path`` is the whole old file or the whole new one. If ``write`` fails,
    the temporary file is removed and the old file stays.
    """
    path = Path(path)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())  # the contents must be on the disk before the name points to them
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_temporaries(folder: str | Path, pattern: str) -> None:
    """Delete what a process that was killed in ``write_atomically`` left in ``folder``.

    pattern: the names it wrote there, such as ``"update_*.npz"``. Other people may call their files ``.partial`` too.
    """
    for stray in Path(folder).glob(pattern + TEMPORARY_SUFFIX):
        stray.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and the rename is on the disk already
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the rename itself
    finally:
        os.close(descriptor)
