"""The processes that share a text: they end when the main process does, and leave interrupts to it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAM = """
import os, time
from minitransformer.text.processes import map_in_processes

def work(seconds):
    print(os.getpid(), flush=True)
    time.sleep(seconds)

if __name__ == "__main__":
    list(map_in_processes(work, [{seconds}] * 2, processes=2))
"""


def start(folder: Path, seconds: int) -> subprocess.Popen:
    """A program whose two workers print their process ids and then sleep."""
    (folder / "program.py").write_text(PROGRAM.format(seconds=seconds))
    path = os.pathsep.join(map(str, (folder, Path(__file__).parents[2])))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "program.py"], cwd=folder, env=os.environ | {"PYTHONPATH": path}, **pipes)


def test_workers_end_when_the_main_process_is_killed(tmp_path):
    with start(tmp_path, seconds=3600) as process:
        workers = [int(process.stdout.readline()) for _ in range(2)]
        process.kill()
        try:
            process.communicate(timeout=60)  # until nobody has the pipes, which the workers have inherited
        finally:
            for worker in workers:
                with suppress(OSError):
                    os.kill(worker, signal.SIGTERM)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system cannot block signals")
def test_a_worker_that_is_still_starting_does_not_heed_an_interrupt(tmp_path):
    interrupt = (
        "import os, signal, sys\nif 'spawn_main' in str(sys.orig_argv):\n    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    (tmp_path / "sitecustomize.py").write_text(interrupt)
    with start(tmp_path, seconds=0) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, len(out.split()), err) == (0, 2, b"")
