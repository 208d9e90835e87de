"""Files and folders that are written whole or not at all."""

import errno
import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from minitransformer.errors import ConfigError

try:
    import fcntl
except ImportError:  # not Unix: no file locks
    fcntl = None

TEMPORARY = ".{}.{}.partial"
"""Name of the temporary file: that of the final file, and 16 random hexadecimal digits."""

MAX_LINE = 1 << 24
"""Maximum bytes of a line of text, in a file or on standard input."""


def ordinary_file(path: str | Path) -> Path:
    """The file that writing to ``path`` replaces: links are followed, so that they stay links.

    Raises:
        ConfigError: ``path`` is a folder, a device or a pipe, which must not be replaced.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        kind = "folder" if os.path.isdir(path) else "device or pipe"
        raise ConfigError(f"output must be an ordinary file, got the {kind} {path}")
    return Path(os.path.realpath(path))


def read_bounded(path: str | Path, limit: int, *, may_be_pipe: bool = False) -> bytes:
    """The bytes of a file.

    may_be_pipe: True for a file that the user names; a folder from elsewhere may hold a pipe that nobody writes to

    Raises:
        OSError: it cannot be read; EFBIG if it has more than ``limit`` bytes, as an endless device does.
    """
    if not (may_be_pipe or os.path.isfile(path) or os.path.isdir(path)) and os.path.exists(path):
        raise OSError(errno.EINVAL, "a device or pipe, not an ordinary file", str(path))
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)} (more than {limit} bytes)", str(path))
    return data


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Fill a temporary file beside ``path`` with ``write(file)``, then rename it to ``path``.

    Even if the process or the machine dies, ``path`` is the whole old file or the whole new one. If ``write`` fails,
    the temporary file is removed and the old file stays. A link stays a link, and a file keeps its permissions.

    Raises:
        ConfigError: ``path`` is not an ordinary file.
        OSError: the file cannot be written (the error names ``path``), or ``write`` fails on another file.
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
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)  # the system names the temporary file, or none where the disk is full
        raise


def write_error(error: OSError) -> str:
    """Why a file cannot be written and what to do, to follow its name in a message."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "make room on its disk" if is_full else "choose a folder that can be written"
    return f"cannot be written: {error.strerror}; {remedy}"


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8 with `write_atomically`."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def remove_temporaries(folder: str | Path, pattern: str) -> None:
    """Delete the temporary files in ``folder`` that a process left when it was killed in ``write_atomically``.

    pattern: the names of its final files, such as ``"update_*.npz"``; partial files of other programs are kept.
    """
    for stray in Path(folder).glob(TEMPORARY.format(pattern, "[0-9a-f]" * 16)):
        if stray.is_file() and not stray.is_symlink():
            stray.unlink(missing_ok=True)


def lock_folder(folder: str | Path) -> int | None:
    """A descriptor that holds a lock on the folder until it is closed or the process ends, in whatever way; None on a
    system without locks.

    Raises:
        BlockingIOError: it is locked.
        OSError: it is not a folder, or is on a disk without locks.
    """
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """A new, empty folder beside ``path``, deleted at the end of the block: rename it, or files in it, to keep them.

    Its name, like that of a temporary file, is random, so that nobody can have put a link there. Folders that killed
    processes left behind are deleted first; those of running processes are locked.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for stray in path.parent.glob(TEMPORARY.format(escape(path.name), "[0-9a-f]" * 16)):
        with suppress(OSError):
            lock = lock_folder(stray)
            shutil.rmtree(stray, ignore_errors=True)  # refuses a link
            unlock(lock)
    folder, lock = path.with_name(TEMPORARY.format(path.name, secrets.token_hex(8))), None
    folder.mkdir()
    with suppress(OSError):
        lock = lock_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        unlock(lock)


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # a folder cannot be opened there, and the rename is on the disk already
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the rename itself
    finally:
        os.close(descriptor)
