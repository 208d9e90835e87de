"""Files that are written whole or not at all."""

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from minitransformer.errors import ConfigError

TEMPORARY = ".{}.{}.partial"
"""Name of the file that is written first: that of the final file, and 16 random hexadecimal digits."""


def ordinary_file(path: str | Path) -> Path:
    """Where a file written as ``path`` comes to lie: links are followed, so that they stay links.

    Raises:
        ConfigError: a folder, a device or a pipe is there, which a file must not take the place of.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        kind = "folder" if os.path.isdir(path) else "device or pipe"
        raise ConfigError(f"output must be an ordinary file, got the {kind} {path}")
    return Path(os.path.realpath(path))


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Fill a temporary file beside ``path`` by ``write(file)`` and put it in place of ``path`` in one step.

    Whenever the process or the machine dies, ``path`` is the whole old file or the whole new one. If ``write`` fails,
    the temporary file is removed and the old file stays. A link stays a link, and a file keeps its permissions.

    Raises:
        ConfigError: ``path`` is no ordinary file.
        OSError: the file cannot be written; it names ``path``.
    """
    target = ordinary_file(path)
    temporary = target.with_name(TEMPORARY.format(target.name, secrets.token_hex(8)))
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())  # the contents must be on the disk before the name points to them
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # the system names the temporary file, or none where the disk is full
        raise


def write_text(path: str | Path, text: str) -> None:
    """`write_atomically` of a text in UTF-8."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def remove_temporaries(folder: str | Path, pattern: str) -> None:
    """Delete what a process that was killed in ``write_atomically`` left in ``folder``.

    pattern: the names it wrote there, such as ``"update_*.npz"``. Other people may call their files ``.partial`` too.
    """
    for stray in Path(folder).glob(TEMPORARY.format(pattern, "[0-9a-f]" * 16)):
        if stray.is_file() and not stray.is_symlink():
            stray.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and the rename is on the disk already
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the rename itself
    finally:
        os.close(descriptor)
