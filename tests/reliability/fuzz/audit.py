"""Detects what a reader must not do, by Python's audit events: files it opens and programs it starts."""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import minitransformer

FORBIDDEN = set("pickle.find_class subprocess.Popen os.system os.exec os.posix_spawn os.fork os.forkpty".split())
FORBIDDEN |= set("socket.connect socket.bind socket.getaddrinfo ctypes.dlopen os.symlink os.link os.chown".split())
"""Events that no reader may cause."""
PATHS = dict.fromkeys("open os.mkdir os.remove os.rmdir os.truncate os.chmod os.listdir os.scandir".split(), 1)
PATHS["os.rename"] = 2
"""Events, and how many of their first arguments are paths."""
LIBRARIES = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), str(Path(minitransformer.__file__).parents[1]))
"""Locations of modules, which may be imported late."""
MATPLOTLIB = (os.path.expanduser(f"~/{folder}/matplotlib") for folder in (".config", ".cache"))
ELSEWHERE = (*MATPLOTLIB, "/dev/null", "/proc/", "/sys/", "/etc/localtime")


class AuditHook:
    """An audit hook: while it watches, any access outside ``folder`` is a fault."""

    def __init__(self, folder: Path):
        self.folder, self.noticed = str(folder.resolve()), None

    @contextmanager
    def watching(self, noticed: list[str]) -> Iterator[None]:
        """Append faults to ``noticed`` in the block."""
        self.noticed = noticed
        try:
            yield
        finally:
            self.noticed = None

    def take(self, event: str, arguments: tuple) -> None:
        """Called by Python for every event of this process."""
        if self.noticed is None:
            return
        if event == "ctypes.dlopen" and arguments[0] is None:  # the process itself, for mallopt
            return
        if event in FORBIDDEN or (event == "exec" and is_text(arguments[0])):
            self.noticed.append(f"{event} by a reader, {str(arguments)[:100]}")
        elif event in PATHS:
            for path in arguments[: PATHS[event]]:
                if isinstance(path, str | bytes | os.PathLike) and not self.is_inside(path):
                    self.noticed.append(f"{event} outside of the folder, {os.fsdecode(path)[:100]!r}")

    def is_inside(self, path: str | bytes | os.PathLike) -> bool:
        """Whether a reader may touch the path."""
        full = os.path.normpath(os.path.join(self.folder, os.fsdecode(path)))
        return full == self.folder or full.startswith((f"{self.folder}/", *LIBRARIES, *ELSEWHERE))


def is_text(code: object) -> bool:
    """Whether this code was compiled from a string; not while a module is imported, which may define a dataclass."""
    frame = inspect.currentframe()
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return getattr(code, "co_filename", "<string>").startswith("<")
