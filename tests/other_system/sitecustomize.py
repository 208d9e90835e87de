"""Takes from Python what another system lacks; on the path of a process, Linux then shows what the package relies on.

The variable MINITRANSFORMER_TEST_SYSTEM says which: ``darwin`` or ``win32``. The standard library and NumPy are loaded
before, as they have their own code for each system. Windows is imitated beyond missing functions: it opens no folder,
syncs no file that is open for reading only, neither replaces nor deletes an open file, and sends no signal to another
process but kills it.

A text file that the package opens without an encoding is an error: what that means differs from system to system.
"""

import errno
import importlib
import os
import selectors
import signal
import subprocess
import sys
import warnings
from fcntl import F_GETFL, fcntl
from types import SimpleNamespace

LOADED_BEFORE = """
    asyncio concurrent.futures.process ctypes multiprocessing.connection multiprocessing.heap multiprocessing.popen_fork
    multiprocessing.popen_spawn_posix multiprocessing.sharedctypes multiprocessing.spawn multiprocessing.synchronize
    numpy pathlib secrets shutil ssl tarfile tempfile threading urllib.request zipfile
"""


class RealSystem:
    """``sys`` for multiprocessing, which asks for the system each time it passes something on to a process."""

    platform = sys.platform

    def __getattr__(self, name):
        return getattr(sys, name)

    def __setattr__(self, name, value):
        setattr(sys, name, value)


for name in LOADED_BEFORE.split():
    module = importlib.import_module(name)
    if name.startswith("multiprocessing."):  # shared memory and processes are made in another way on Windows
        module.sys, module.os, module.signal = RealSystem(), *(SimpleNamespace(**vars(each)) for each in (os, signal))

warnings.filterwarnings("ignore", category=EncodingWarning)
warnings.filterwarnings("error", category=EncodingWarning, module="minitransformer")

LACKING = {
    "darwin": {os: ["sched_getaffinity", "sched_setaffinity"]},
    "win32": {
        os: "fork forkpty register_at_fork sched_getaffinity sched_setaffinity sysconf getloadavg mkfifo killpg "
        "getuid geteuid setsid nice statvfs pread O_DIRECTORY O_NOFOLLOW uname wait3 wait4".split(),
        signal: "SIGKILL SIGHUP SIGSTOP SIGCONT SIGUSR1 SIGUSR2 SIGPIPE SIGALRM SIGCHLD SIGQUIT alarm setitimer "
        "pthread_sigmask pthread_kill sigwait pause siginterrupt".split(),
    },
}
NO_MODULES = {"darwin": [], "win32": ["fcntl", "resource", "pwd", "grp", "termios", "tty", "readline", "syslog"]}


def lacks(system: str) -> None:
    for module, names in LACKING[system].items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.modules.update(dict.fromkeys(NO_MODULES[system]))  # None: import raises ImportError
    selectors.DefaultSelector = selectors.SelectSelector  # epoll is Linux's own
    if system == "win32":
        behave_like_windows()
    sys.platform = system


def open_paths() -> set[str]:
    """What this process has open, or mapped into its memory."""
    paths = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
    with open("/proc/self/maps", encoding="utf-8") as file:
        return paths | {line.split(maxsplit=5)[5].rstrip("\n") for line in file if "/" in line}


def behave_like_windows() -> None:
    open_file, fsync = os.open, os.fsync

    def guarded(function):
        def call(path, *rest, **options):
            used = open_paths()
            for each in (path, *rest[:1]):
                if isinstance(each, str | os.PathLike) and os.path.realpath(each) in used:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(each))
            return function(path, *rest, **options)

        return call

    def open_no_folder(path, *rest, **options):
        if isinstance(path, str | os.PathLike) and os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_file(path, *rest, **options)

    def sync_for_writing(descriptor):
        if fcntl(descriptor, F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        fsync(descriptor)

    def send_signal(process, number):
        if number != signal.SIGTERM:
            raise ValueError(f"Unsupported signal: {number}")
        process.kill()

    subprocess.Popen.kill = lambda process: process.poll() is None and os.kill(process.pid, 9)
    subprocess.Popen.send_signal = send_signal
    os.open, os.fsync = open_no_folder, sync_for_writing
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, guarded(getattr(os, name)))


if os.environ.get("MINITRANSFORMER_TEST_SYSTEM"):
    lacks(os.environ["MINITRANSFORMER_TEST_SYSTEM"])
