"""One training that is struck again and again and resumed each time, beside one that is left alone."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from minitransformer.checkpoints import RunFolder
from minitransformer.text import Tokenizer
from minitransformer.text.binarise import binarise
from tests.reliability.blows import BLOWS, Blow
from tests.reliability.killed_job import Job, Start, check_unlocked, require
from tests.reliability.same_run import UninterruptedRun, batches_of


@dataclass(frozen=True)
class Configuration:
    """How a training is started and struck.

    starts, blows: one of each is drawn at every attempt
    tolerance: 0: all bits must be equal; else the relative error of float64 vectors and losses
    """

    starts: tuple[Start, ...] = (Start(),)
    blows: tuple[str, ...] = ("SIGKILL",)
    settings: dict[str, str] = field(default_factory=dict)
    binarised: bool = False
    own_disk: bool = False
    tolerance: float = 0.0


CONFIG = """
[model]
n_layers = 1
d_model = 16
d_ff = 32
n_heads = 2
p_drop = 0.2
p_drop_attention = 0.1
p_drop_ffn = 0.1
positions = "learned"    # a table that makes the checkpoint large and costs no time otherwise
max_positions = 8000

[data]
{data}
valid_src = "{folder}/valid.src"
valid_tgt = "{folder}/valid.tgt"
tokenizer = "{folder}/bpe.txt"
src_tokens = 48
tgt_tokens = 48

[training]
directory = "{folder}/run"
micro_batches = 4
warmup_steps = 20
clip_norm = 0.5
log_every = 3
validate_every = 10

[execution]
device = "cpu"
"""


def write_inputs(folder: Path, binarised: bool, seed: int) -> Path:
    """Random sentences and their reverse, a tokenizer and a config; returns the config's path."""
    rng, words = np.random.default_rng(seed), [a + b for a in "abcdefg" for b in "hijkl"]
    lines = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(260)]
    for name, part in (("train", lines[:240]), ("valid", lines[240:])):
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in part))
        (folder / f"{name}.tgt").write_text("".join(f"{line[::-1]}\n" for line in part))
    tokenizer = Tokenizer.train(lines, 90, mode="words")
    tokenizer.save(folder / "bpe.txt")
    if binarised:
        binarise(tokenizer, [(folder / "train.src", folder / "train.tgt")], folder / "ids")
    data = 'train_ids = "{0}/ids"' if binarised else 'train_src = "{0}/train.src"\ntrain_tgt = "{0}/train.tgt"'
    config = folder / "config.toml"
    config.write_text(CONFIG.format(folder=folder, data=data.format(folder)))
    return config


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A file system of ``size`` bytes at ``folder``, for the block; only root can make one."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class StruckRun:
    """A run in ``folder``, which is made, of ``updates`` updates.

    Attributes:
        blows: what was done to it and how it ended of that, blow by blow.

    Raises (`go`): BrokenPromise: what a training promises does not hold; the folder shows it.
    """

    def __init__(self, configuration: Configuration, folder: Path, seed: int, updates: int):
        folder.mkdir(parents=True)
        self._configuration, self._folder, self._run = configuration, folder, folder / "run"
        self._rng = np.random.default_rng(seed)
        self._config = write_inputs(folder, configuration.binarised, seed)
        self._settings = [f"training.seed={seed}", f"training.updates={updates}"]
        self._settings += [f"{key}={value}" for key, value in configuration.settings.items()]
        self._attempts, self._newest = 0, -1
        self._batches: dict[tuple[int, int], str] = {}
        self.blows: list[dict] = []

    def go(self, blows: int) -> None:
        """Train without interruption; then train again, strike at most ``blows`` times, and compare."""
        self._leave_alone()
        size = 5 * max(path.stat().st_size for path in RunFolder(self._folder / "whole").paths())
        with small_disk(self._run, size) if self._configuration.own_disk else nullcontext():
            while not self._attempt(blows):
                require(self._attempts < 5 * blows, "the run must get on between the blows")
            self._uninterrupted.check_end(self._run, self._batches)

    def _leave_alone(self) -> None:
        """The uninterrupted run, and how long it takes to start, to save, and to make an update and save."""
        start = self._configuration.starts[0]
        job = self._start(start, self._folder / "whole", "training.save_every=1", "training.keep_checkpoints=0")
        job.end()
        require(job.root.returncode == 0, f"the uninterrupted run must end with 0, got {job.messages()[-5:]}")
        times = {event: [] for event in ("running", "saving", "saved")}
        for when, rank, event, *_ in job.events():
            if rank == "0" and event in times:
                times[event].append(float(when))
        self._startup = times["running"][0] - job.began
        self._saving = float(np.median(np.subtract(times["saved"], times["saving"])))
        self._cycle = float(np.median(np.diff(times["saving"])))
        self._uninterrupted = UninterruptedRun(self._folder / "whole", job, self._configuration.tolerance)

    def _start(self, start: Start, directory: Path, *settings: str) -> Job:
        self._attempts += 1
        command = start.command(self._config, *self._settings, f"training.directory={directory}", *settings)
        return Job(start, command, self._folder / f"notes-{self._attempts:03d}")

    def _attempt(self, blows: int) -> bool:
        """Start or resume the run, and strike until it ends; returns whether it was done before a blow came."""
        start = self._configuration.starts[self._rng.integers(len(self._configuration.starts))]
        job = self._start(start, self._run, "training.save_every=2", "training.keep_checkpoints=3")
        seen, struck = self._newest, False
        while len(self.blows) < blows and self._wait_for_moment(job, is_first=not struck):
            name = self._configuration.blows[self._rng.integers(len(self._configuration.blows))]
            seen = max([seen, *(int(path.stem.removeprefix("update_")) for path in RunFolder(self._run).paths())])
            target, struck = BLOWS[name].strike(job, self._run, self._rng), True
            self.blows.append({"blow": name, "target": target, "start": start.name, "phase": job.phase()})
            if BLOWS[name].ends:
                self._after(job, BLOWS[name], seen)
                return job.root.returncode == 0
        job.end()
        require(job.root.returncode == 0, f"the run must end with 0, got {job.root.returncode}: {job.messages()[-5:]}")
        self._check(job, seen)
        return True

    def _wait_for_moment(self, job: Job, is_first: bool) -> bool:
        """Wait for a random moment: anywhere in the start, in a save, or anywhere later; False if the run has ended."""
        kind = self._rng.choice(["start", "save", "anywhere"], p=[0.15, 0.5, 0.35])
        if kind == "start" and is_first:
            time.sleep(self._rng.uniform(0, self._startup))
            return not job.has_ended()
        event = "saving" if kind == "save" else "batch"
        count = job.count(event) + self._rng.integers(1, 6 if kind == "save" else 40)
        while job.count(event) < count:
            if job.has_ended():
                return False
            time.sleep(0.001)
        time.sleep(self._rng.uniform(0, self._saving if kind == "save" else self._cycle))
        return not job.has_ended()

    def _after(self, job: Job, blow: Blow, seen: int) -> None:
        """The job has been struck: it must end, say why, and lose nothing."""
        record, seconds = self.blows[-1], job.end()
        unfinished = any(self._run.rglob("*.partial"))
        record |= {"unfinished_file": unfinished, "seconds_to_end": round(seconds, 3)}
        record |= {"said": " ".join(job.errors()).replace(str(self._folder), "")}
        record |= {"exit_code": job.root.returncode, "update": max((u for u, _ in batches_of(job)), default=None)}
        blow.check(job, record["target"], record["phase"])
        self._check(job, seen)

    def _check(self, job: Job, seen: int) -> None:
        """What the job has left, and that it began where the one before it had left off."""
        resumed = [int(values[0]) for _, rank, event, *values in job.events() if (rank, event) == ("0", "running")]
        require(resumed in ([], [max(self._newest, 0)]), f"must resume from {self._newest}, got {resumed}")
        if self._run.exists():
            check_unlocked(self._run)
            self._newest = self._uninterrupted.check_folder(self._run, job, seen)
        self._batches |= batches_of(job)
