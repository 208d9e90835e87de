"""Many trainings, each a process of its own, as many at a time as there are cores; results are kept as they come.

A result is one line of a JSON Lines file, written when its training is done. The same sweep started again skips what
the file already has and resumes what was interrupted from its checkpoints, so a kill costs at most the updates since
the last checkpoint of each running training.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from minitransformer.errors import DataError, TrainingError, quoted
from minitransformer.training.signals import Outcome


@dataclass(frozen=True)
class Job:
    """One training. command: prints the result, a JSON object, as the last line of its output   log: for its stderr"""

    name: str
    seed: int
    command: Sequence[str]
    log: Path


def read_results(path: Path) -> list[dict]:
    """The results of a sweep so far, in the order in which they were measured.

    A last line without its end is what a crash has left of one, and is not read.

    Raises:
        DataError: a line is not a JSON object with a name and a seed.
    """
    if not path.exists():
        return []
    results, text = [], path.read_text(encoding="utf-8")
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            result = json.loads(line)
            results.append(result | {"key": (result["name"], result["seed"])})
        except (ValueError, TypeError, KeyError):
            raise DataError(f"{path}:{number}: must be a result with name and seed, got {quoted(line, 80)}") from None
    return results


def check_settings(path: Path, settings: dict) -> None:
    """One file holds the results of one set of settings: others are not comparable.

    Raises:
        DataError: a result in the file was measured with other settings.
    """
    for result in read_results(path):
        if result["settings"] != settings:
            raise DataError(
                f"{path}: results must have the settings {json.dumps(settings)}, got {json.dumps(result['settings'])}; "
                "choose the same ones or another --results"
            )


def run_sweep(jobs: Sequence[Job], path: Path, processes: int) -> None:
    """Run the jobs that ``path`` has no result of, in their order, and append each result to it.

    Raises:
        TrainingError: a job failed; the others that were running have been ended and keep their checkpoints.
    """
    done = {result["key"] for result in read_results(path)}
    jobs = [job for job in jobs if (job.name, job.seed) not in done]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C does, it ends the trainings below
    running: set[subprocess.Popen] = set()
    path.parent.mkdir(parents=True, exist_ok=True)
    _cut_unfinished_line(path)
    with ThreadPoolExecutor(processes) as pool, tqdm(total=len(jobs), desc="trainings", unit="run") as bar:
        try:
            pending = {pool.submit(_run, job, running) for job in jobs}
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda future: future.exception() is not None):
                    _append(path, future.result())  # one that failed raises after the others are kept
                    bar.update()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()  # a training then saves a checkpoint and ends


def _append(path: Path, result: dict) -> None:
    with path.open("ab") as file:
        file.write(json.dumps(result).encode() + b"\n")


def _cut_unfinished_line(path: Path) -> None:
    """Remove what a crash has left of a last line."""
    if path.exists():
        with path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _run(job: Job, running: set[subprocess.Popen]) -> dict:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("a", encoding="utf-8") as log:
        process = subprocess.Popen(job.command, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8")
        running.add(process)
        try:
            output, _ = process.communicate()
        finally:
            running.remove(process)
    if process.returncode:
        raise TrainingError(f"{job.name}, seed {job.seed}: exit code {process.returncode}; see {job.log}")
    return json.loads(output.strip().splitlines()[-1])


def stop_if_interrupted(outcome: Outcome) -> None:
    """End the program after a signal; the training has saved a checkpoint and goes on from there another time."""
    if outcome.signal is not None:
        sys.exit(outcome.exit_status)


def fail(program: str, error: Exception) -> int:
    """Print the one line of an error of the user's; the exit code."""
    print(f"{program}: {error}", file=sys.stderr)
    return 2
