"""Run many trainings, each in a process of its own, as many at a time as there are cores; save each result at once.

A result is one line of a JSON Lines file, written when its training is done. The same sweep started again skips what
the file already has and resumes what was interrupted from its checkpoints, so a kill costs at most the updates since
the last checkpoint of each running training.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from examples.paper.program import complete_lines, read_results
from minitransformer.errors import ConfigError, DataError, TrainingError, quote
from minitransformer.files import write_error
from minitransformer.training import Trainer

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@dataclass(frozen=True)
class Job:
    """One training. command: prints the result, a JSON object, as the last line of its output   log: for its stderr"""

    name: str
    seed: int
    command: Sequence[str]
    log: Path


def check_settings(path: Path, settings: dict) -> None:
    """One file holds the results of one set of settings, since others are not comparable.

    Raises:
        DataError: a result in the file was measured with another setting, which is named.
    """
    for result in read_results(path):
        check_same(path, settings, result.get("settings"))


def check_same(where: str | Path, settings: dict, theirs: object) -> None:
    """DataError, which names the setting, if the results at ``where`` were measured with settings that differ."""
    theirs = theirs if isinstance(theirs, dict) else {}
    for key in sorted(settings.keys() | theirs.keys()):
        if settings.get(key) != theirs.get(key):
            raise DataError(
                f"{where}: results must have the settings of this call, {key} = {quote(settings.get(key))}, got "
                f"{quote(theirs.get(key))}; set it back, delete what has it, or choose another --results"
            )


def run_sweep(jobs: Sequence[Job], path: Path, processes: int) -> None:
    """Run the jobs whose results ``path`` lacks, in their order, and append each result to it.

    Raises:
        ConfigError: another program is at work on ``path``.
        TrainingError: a job failed; the others that were running have been ended and keep their checkpoints.
        DataError: a result cannot be written; the file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened_alone(path) as file:
        done = {result["key"] for result in read_results(path)}
        jobs = [job for job in jobs if (job.name, job.seed) not in done]
        waiting, running = iter(jobs), {}
        with ThreadPoolExecutor(processes) as pool, tqdm(total=len(jobs), desc="trainings", unit="run") as bar:
            on_term = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C, it ends the trainings below
            try:
                while True:
                    for job in islice(waiting, processes - len(running)):  # here alone: none begins after a failure
                        process = _start(job)
                        running[pool.submit(_result, job, process)] = process
                    if not running:
                        break
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in sorted(finished, key=lambda future: future.exception() is not None):
                        append(file, future.result())  # one that failed raises after the others are kept
                        del running[future]
                        bar.update()
            finally:
                for process in running.values():
                    process.terminate()  # a training then saves a checkpoint and ends
                signal.signal(signal.SIGTERM, on_term)


@contextmanager
def opened_alone(path: Path) -> Iterator[BinaryIO]:
    """The results file, opened at its end for this program alone; a last line cut off by a crash is removed."""
    with path.open("ab", buffering=0) as file:
        try:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        except BlockingIOError:
            raise ConfigError(f"{path}: must be free, got another program at work on it; wait for its end") from None
        lines = complete_lines(path)
        file.truncate(len(b"\n".join(lines)))
        if lines:
            file.write(b"\n")
        yield file


def append(file: BinaryIO, result: dict) -> None:
    """Append a result to the file that `opened_alone` has opened; DataError, and the file is as it was, if the disk is
    full."""
    before, line = os.fstat(file.fileno()).st_size, json.dumps(result).encode() + b"\n"
    try:
        if file.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        file.truncate(before)
        raise DataError(f"{file.name}: {write_error(error)}; then start again") from error


def _start(job: Job) -> subprocess.Popen:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("a", encoding="utf-8") as log:
        return subprocess.Popen(job.command, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8")


def _result(job: Job, process: subprocess.Popen) -> dict:
    output, _ = process.communicate()
    if process.returncode:
        raise TrainingError(f"{job.name}, seed {job.seed}: exit code {process.returncode}; see {job.log}")
    return json.loads(output.strip().splitlines()[-1])


def run_to_end(trainer: Trainer) -> None:
    """Train to the last update. A signal ends the program; the training has then saved a checkpoint, from which it can
    resume.

    Raises:
        DataError: the training is already beyond that update.
    """
    training = trainer.config.training
    if trainer.update > training.updates:
        raise DataError(
            f"{training.directory}: must not be beyond update {training.updates}, which has no score yet, got "
            f"{trainer.update}; score it where it was scored before, or begin in another folder"
        )
    outcome = trainer.run()  # also where only the last validation is missing
    if outcome.signal is not None:
        sys.exit(outcome.exit_status)
