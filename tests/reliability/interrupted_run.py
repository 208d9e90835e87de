"""One training that is interrupted and resumed repeatedly, and the uninterrupted training it is compared with."""

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from minitransformer.checkpoints import RunFolder
from minitransformer.text import Tokenizer
from minitransformer.text.binarize import binarize
from tests.reliability.jobs import Job, Start, require, wait_until
from tests.reliability.same_run import UninterruptedRun, batches_of
from tests.tiny_run import write_config

SAVED = ("training.save_every=2", "training.keep_checkpoints=3")


@dataclass(frozen=True)
class Configuration:
    """How a training is started and interrupted.

    starts, interruptions: one of each is drawn for every attempt
    tolerance: 0: all bits must be equal; otherwise the relative error of float64 vectors and losses
    """

    starts: tuple[Start, ...] = (Start(),)
    interruptions: tuple[str, ...] = ("SIGKILL",)
    settings: dict[str, str] = field(default_factory=dict)
    binarized: bool = False
    tolerance: float = 0.0


MODEL = dict(n_layers=1, d_model=16, d_ff=32, n_heads=2, p_drop=0.2, p_drop_attention=0.1, p_drop_ffn=0.1)
MODEL |= dict(positions="learned", max_positions=8000)  # a large table makes large checkpoints and costs no other time
TRAINING = dict(micro_batches=4, warmup_steps=20, clip_norm=0.5, log_every=3, validate_every=10)


def write_inputs(folder: Path, binarized: bool, seed: int) -> Path:
    """Write random sentences and their reverse, a tokenizer and a config; returns the path of the config."""
    rng, words = np.random.default_rng(seed), [a + b for a in "abcdefg" for b in "hijkl"]
    lines = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(260)]
    for name, part in (("train", lines[:240]), ("valid", lines[240:])):
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in part))
        (folder / f"{name}.tgt").write_text("".join(f"{line[::-1]}\n" for line in part))
    tokenizer = Tokenizer.train(lines, 90, mode="words")
    tokenizer.save(folder / "bpe.txt")
    if binarized:
        binarize(tokenizer, [(folder / "train.src", folder / "train.tgt")], folder / "ids")
    train = {"train_ids": "ids"} if binarized else {"train_src": "train.src", "train_tgt": "train.tgt"}
    files = train | {"valid_src": "valid.src", "valid_tgt": "valid.tgt", "tokenizer": "bpe.txt"}
    return write_config(
        folder / "config.toml",
        model=MODEL,
        data={key: f"{folder}/{name}" for key, name in files.items()} | {"src_tokens": 48, "tgt_tokens": 48},
        training=TRAINING | {"directory": f"{folder}/run"},
        execution={"device": "cpu"},
    )


class InterruptedRun:
    """A run of ``updates`` updates in ``folder``, which is created.

    Attributes:
        interruptions: a record of each interruption and of how the job ended.

    Raises (`run`): GuaranteeViolation: a guarantee of training does not hold; the folder is evidence.
    """

    def __init__(self, configuration: Configuration, folder: Path, seed: int, updates: int):
        folder.mkdir(parents=True)
        self._configuration, self._folder, self._run = configuration, folder, folder / "run"
        self._rng = np.random.default_rng(seed)
        self._config = write_inputs(folder, configuration.binarized, seed)
        settings = {"training.seed": seed, "training.updates": updates} | configuration.settings
        self._settings = [f"{key}={value}" for key, value in settings.items()]
        self._attempts, self._newest = 0, -1
        self._batches: dict[tuple[int, int], str] = {}
        self.interruptions: list[dict] = []

    def run(self, interruptions: int) -> None:
        """Train without interruption; then train again with at most ``interruptions`` of them, and compare."""
        self._train_uninterrupted()
        while not self._attempt(interruptions):
            require(self._attempts < 5 * interruptions, "the run must make progress between interruptions")
        self._uninterrupted.check_end(self._run, self._batches)

    def _train_uninterrupted(self) -> None:
        """Run the uninterrupted training, and measure how long its start, a save, and an update with a save take."""
        folder = self._folder / "uninterrupted"
        job = self._start(self._configuration.starts[0], folder, "training.save_every=1", "training.keep_checkpoints=0")
        self._check_complete(job)
        running, saving, saved = (
            [float(when) for when, rank, each, *_ in job.events() if (rank, each) == ("0", event)]
            for event in ("running", "saving", "saved")
        )
        self._startup = running[0] - job.began
        self._saving, self._cycle = np.median(np.subtract(saved, saving)), np.median(np.diff(saving))
        self._uninterrupted = UninterruptedRun(folder, job, self._configuration.tolerance)

    def _start(self, start: Start, directory: Path, *settings: str) -> Job:
        self._attempts += 1
        command = start.command(self._config, *self._settings, f"training.directory={directory}", *settings)
        return Job(start, command, self._folder / f"events-{self._attempts:03d}")

    def _check_complete(self, job: Job) -> None:
        job.end()
        require(job.root.returncode == 0, f"the run must exit with 0, got {job.root.returncode}: {job.messages()[-5:]}")

    def _attempt(self, interruptions: int) -> bool:
        """Start or resume the run, and interrupt it until it ends; returns whether training is complete."""
        job = self._start(self._one_of(self._configuration.starts), self._run, *SAVED)
        seen, is_interrupted = self._newest, False
        while len(self.interruptions) < interruptions and self._wait_for_moment(job, is_first=not is_interrupted):
            kind = self._one_of(self._configuration.interruptions)
            seen = max([seen, *(int(path.stem.removeprefix("update_")) for path in RunFolder(self._run).paths())])
            target, is_interrupted = job.interrupt(kind, self._run, self._rng), True
            record = {"kind": kind, "target": target, "phase": job.phase()}
            self.interruptions.append(record)
            if kind != "SIGSTOP":  # the job must end, print the reason, and lose nothing
                record["seconds_to_end"] = round(job.end(), 3)
                record["unfinished_file"] = any(self._run.rglob("*.partial"))
                job.check_end(kind, target, record["phase"])
                self._check(job, seen)
                return job.root.returncode == 0
        self._check_complete(job)
        self._check(job, seen)
        return True

    def _one_of(self, choices: tuple) -> object:
        return choices[self._rng.integers(len(choices))]

    def _wait_for_moment(self, job: Job, is_first: bool) -> bool:
        """Wait for a random moment of the start, of a save, or any later one; False if the run has ended."""
        kind = self._rng.choice(["start", "save", "anywhere"], p=[0.15, 0.5, 0.35])
        if kind == "start" and is_first:
            time.sleep(self._rng.uniform(0, self._startup))
            return not job.has_ended()
        event, most, longest = ("saving", 6, self._saving) if kind == "save" else ("batch", 40, self._cycle)
        count = job.count(event) + self._rng.integers(1, most)
        while job.count(event) < count:
            if job.has_ended():
                return False
            time.sleep(0.001)
        time.sleep(self._rng.uniform(0, longest))
        return not job.has_ended()

    def _check(self, job: Job, seen: int) -> None:
        """The folder is as it must be, and the job resumed from the newest checkpoint."""
        resumed = [int(values[0]) for _, rank, event, *values in job.events() if (rank, event) == ("0", "running")]
        require(resumed in ([], [max(self._newest, 0)]), f"must resume from {self._newest}, got {resumed}")
        if self._run.exists():
            check_unlocked(self._run)
            self._newest = self._uninterrupted.check_folder(self._run, job, seen)
        self._batches |= batches_of(job)


def check_unlocked(folder: Path) -> None:
    """The folder of a run that has ended is unlocked, as soon as the system has closed all its files."""

    def is_free() -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        wait_until(is_free, f"{folder} must be unlocked", seconds=5)
    finally:
        os.close(descriptor)
