"""A training run from start to end: updates, progress, metrics, validation, checkpoints, exact resume."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
from tqdm import tqdm

from minitransformer.backend import keep_freed_memory, to_numpy
from minitransformer.checkpoints.checkpoint import save_checkpoint
from minitransformer.checkpoints.run_folder import RunFolder
from minitransformer.config import Config
from minitransformer.distributed import CommonStop, ProcessGroup
from minitransformer.errors import CheckpointError, TrainingError
from minitransformer.kernels.profile import Profile, profiled, timed
from minitransformer.models import Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.planning.flops import Cost, measured_rate, step_flops
from minitransformer.text import BatchStream
from minitransformer.text.prefetch import Prefetcher
from minitransformer.training.agreement import check_same_job, newest_for_all
from minitransformer.training.corpus import Corpus
from minitransformer.training.preparation import connected, with_vocabulary, workers_for
from minitransformer.training.progress import ProgressReporter
from minitransformer.training.recorder import MetricsRecorder
from minitransformer.training.resume import check_same_run
from minitransformer.training.signals import Outcome, StopRequest
from minitransformer.training.step import train_step
from minitransformer.training.validation import Validation


class Trainer:
    """Trains a Transformer as ``config`` says.

    The state after update u follows from (config, data, u) alone: batches and dropout masks are drawn anew from
    (seed, update), so a run that was killed and resumed ends in the same bits as one that was not (a GPU draws other
    masks than NumPy). Several ranks share the micro-batches of each update; rank 0 alone writes and validates.

    corpus: sentence pairs; None reads the files of the [data] section
    resume: go on from the newest whole checkpoint in training.directory, if there is one; False: refuse to start there
    progress: show a bar
    profile: takes the times of all ops of this sitting
    crew: the ranks that train together, made by ``distributed.init_process_group``; None for this process alone

    Raises:
        ConfigError, DataError, BackendError: the config, the data or the device will not do.
        CheckpointError: what is in the directory belongs to another run, or is damaged throughout.
    """

    def __init__(
        self,
        config: Config,
        corpus: Corpus | None = None,
        *,
        resume: bool = True,
        progress: bool = True,
        profile: Profile | None = None,
        process_group: ProcessGroup | None = None,
    ):
        keep_freed_memory()
        corpus = Corpus.from_files(config.data) if corpus is None else corpus
        config = with_vocabulary(config, corpus)
        settings = config.training
        self.config, self.corpus, self.profile = config, corpus, profile
        self.fingerprint = corpus.fingerprint()
        self.tokenizer_text = corpus.tokenizer.dumps() if corpus.tokenizer else ""
        self.stream = BatchStream(
            *corpus.train, src_tokens=config.data.src_tokens, tgt_tokens=config.data.tgt_tokens, seed=settings.seed
        )
        self.validation = Validation.if_wanted(corpus, config)
        xp, self.ranks = connected(process_group or ProcessGroup.single(), settings)
        check_same_job(self.ranks, config, self.fingerprint)
        self.first = self.ranks.rank == 0
        self.reporter = ProgressReporter(self.first, progress)
        self.batches = Prefetcher(self.stream, self._own_after)
        self.model = Transformer(config.model, seed=settings.seed, xp=xp, precision=settings.precision)
        self.workers = workers_for(settings, self.ranks.size, on_cpu=xp is np)
        self.optimizer = Adam(self.model.parameters, beta1=settings.beta1, beta2=settings.beta2, eps=settings.eps)
        self.loss_scale = LossScale.for_precision(settings.precision)
        self.folder = RunFolder(settings.directory)
        self.recorder = MetricsRecorder(self.folder.metrics, self.first, settings.log_every, self.epoch_of)
        self.update, self.saved_update, self.validated_update = 0, -1, 0
        self.saved_at = time.monotonic()
        self._enter()
        try:
            self._start(resume)
        except BaseException:
            self.folder.leave()
            raise

    def run(self) -> Outcome:
        """Train until ``training.updates`` updates are done, or until SIGINT, SIGTERM or SIGHUP. A checkpoint is left.

        Raises:
            TrainingError: the loss is no longer a number. The checkpoints stay as they were.
        """
        settings = self.config.training
        self.recorder.begin_sitting()
        self.saved_at = time.monotonic()
        self._enter()
        together = CommonStop(self.ranks, self.update)
        try:
            bar = self.reporter.bar(self.update, settings.updates)
            # What overflows ends in the one line of a TrainingError, not in warnings of NumPy.
            with StopRequest() as stop, bar, np.errstate(all="ignore"):
                self._validate_if_due()  # the last sitting may have ended between an update and its validation
                while self.update < settings.updates and together.may_begin(self.update + 1, stop.signal is not None):
                    self._one_update(bar)
                    self._save_if_due()
                    if stop.signal is None:
                        self._validate_if_due()
                self._save()
                signals = self.ranks.gather_text("signals", str(stop.signal or 0))
                return Outcome(self.update, max(map(int, signals)) or None)
        finally:
            self.folder.leave()

    def epoch_of(self, update: int) -> int:
        """The epoch, counted from 1, of the first micro-batch of ``update`` (counted from 1)."""
        return self.stream.position((update - 1) * self.config.training.micro_batches)[0] + 1

    def cost(self) -> Cost:
        """What the updates so far have cost. Goes through the lengths of all batches again, and measures a product."""
        seconds, numbers = self.recorder.seconds(), range(self.update * self.config.training.micro_batches)
        with self.ranks.busy("counts the cost"):
            formula = sum(step_flops(self.config.model, *self.stream.shape(number)) for number in numbers)
            return Cost(formula, seconds, self.ranks.size, measured_rate(self.model.xp))

    def _enter(self) -> None:
        if self.first:
            self.folder.enter()

    def _one_update(self, bar: tqdm) -> None:
        settings, update = self.config.training, self.update + 1
        self.recorder.begin_update()
        first = self.update * settings.micro_batches
        numbers = range(first, first + settings.micro_batches)
        how = {"config": settings, "workers": self.workers, "loss_scale": self.loss_scale, "ranks": self.ranks}
        if self.ranks.size > 1:
            how["n_tokens"] = tuple(np.sum([self.stream.n_tokens(number) for number in numbers], axis=0).tolist())
        batches = [self.batches.batch(number) for number in numbers[self.ranks.rank :: self.ranks.size]]
        with profiled(self.profile), timed("update"):
            result = train_step(self.model, self.optimizer, batches, update=update, **how)
        self.update = update
        if self.recorder.add(update, result):
            self.reporter.show(bar, self.recorder.interval, update, result.learning_rate)
            self.recorder.write_if_due(update, result.learning_rate)

    def _own_after(self, number: int) -> Iterator[int]:
        """The next micro-batches of this rank after ``number``."""
        share = self.config.training.micro_batches
        own = (other for other in count(number + 1) if other % share % self.ranks.size == self.ranks.rank)
        return islice(own, Prefetcher.AHEAD)

    def _validate_if_due(self) -> None:
        settings = self.config.training
        if not self.first or self.validation is None or self.update <= self.validated_update:
            return
        if self.update % settings.validate_every == 0 or self.update == settings.updates:
            self._save()  # who asked this process to end may not wait until a long validation is over
            with self.ranks.busy("validates"):
                self.recorder.write("valid", self.update, self.validation.measure(self.model))
            self.validated_update = self.update

    def _save_if_due(self) -> None:
        settings = self.config.training
        by_count = settings.save_every and self.update % settings.save_every == 0
        by_clock = settings.save_minutes and time.monotonic() - self.saved_at >= 60 * settings.save_minutes
        if by_count or by_clock:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint of this update, unless it is there already, and delete the oldest beyond the limit."""
        if not self.first or self.saved_update == self.update:
            return
        self.recorder.read(self.update)  # here a GPU waits for the other ranks, who may be stuck
        with self.ranks.busy("saves"):
            self._write_checkpoint()
        self.folder.prune(self.config.training.keep_checkpoints, self.update)
        self.saved_update, self.saved_at = self.update, time.monotonic()

    def _write_checkpoint(self) -> None:
        if not np.isfinite(to_numpy(self.model.parameters.data)).all():
            raise TrainingError(
                f"train: parameters must be finite to be saved, got some that are not after update {self.update}; "
                "the checkpoints before it are whole; lower training.lr_scale or set training.clip_norm"
            )
        self.recorder.sync()
        save_checkpoint(
            self.folder.path_of(self.update),
            self.model,
            self.optimizer,
            update=self.update,
            config=self.config,
            tokenizer_text=self.tokenizer_text,
            progress={
                "fingerprint": self.fingerprint,
                "next_micro_batch": self.update * self.config.training.micro_batches,
                **self.recorder.to_dict(),
                "loss_scale": self.loss_scale.to_dict(),
            },
        )

    def _start(self, resume: bool) -> None:
        """Bring folder, log, model and counters to the newest whole checkpoint, or to update 0."""
        if not resume and self.first and self.folder.paths():
            raise CheckpointError(
                f"train: training.directory must hold no checkpoints to begin anew, got {self.folder.directory} with "
                f"{len(self.folder.paths())}; resume, choose another directory or delete them"
            )
        checkpoint = newest_for_all(self.ranks, self.folder, self.reporter.say)
        if checkpoint is not None:
            check_same_run(checkpoint, self.config, self.tokenizer_text, self.fingerprint)
            checkpoint.restore(self.model, self.optimizer)
            self.update = self.saved_update = checkpoint.update
            self.recorder.restore(checkpoint.progress)
            if self.loss_scale.is_needed and checkpoint.progress.get("loss_scale", {}).get("is_needed"):
                self.loss_scale = LossScale(**checkpoint.progress["loss_scale"])
            self.reporter.say(f"train: resumed from {checkpoint.path}")
        elif self.corpus.n_empty + self.corpus.n_long:
            self.reporter.say(
                f"train: left out {self.corpus.n_empty} pairs with an empty side and {self.corpus.n_long} longer than "
                f"{self.config.data.max_length} tokens, end mark included"
            )
        lines = self.recorder.cut_after(self.update)
        self.validated_update = max((line["update"] for line in lines if line["kind"] == "valid"), default=0)
