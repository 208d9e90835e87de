"""A training run from start to end: updates, progress, metrics, validation, checkpoints, exact resume."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from minitransformer.backend import keep_freed_memory, load_array_module, to_numpy
from minitransformer.config import Config
from minitransformer.distributed import Workers
from minitransformer.errors import CheckpointError, ConfigError, TrainingError
from minitransformer.kernels.profile import Profile, profiled, timed
from minitransformer.nn import Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.text import BatchStream
from minitransformer.training.checkpoint import save_checkpoint
from minitransformer.training.corpus import Corpus
from minitransformer.training.folder import RunFolder
from minitransformer.training.metrics import Meter, MetricsLog
from minitransformer.training.resume import check_same_run
from minitransformer.training.signals import StopRequest
from minitransformer.training.step import StepResult, train_step
from minitransformer.training.unread import Unread
from minitransformer.training.validation import Validation


@dataclass(frozen=True)
class Outcome:
    """How a run ended: after ``update`` updates in all; ``signal`` is the number of the signal that stopped it."""

    update: int
    signal: int | None = None

    @property
    def exit_status(self) -> int:
        """0 when all updates are done, else what shells expect: 128 + its number, 130 after SIGINT."""
        return 0 if self.signal is None else 128 + self.signal


class Trainer:
    """Trains a Transformer as ``config`` says.

    The state after update u follows from (config, data, u) alone: batches and dropout masks are drawn anew from
    (seed, update), so a run that was killed and resumed ends in the same bits as one that was not. A GPU draws other
    masks than NumPy.

    corpus: sentence pairs; None reads the files of the [data] section
    resume: go on from the newest whole checkpoint in training.directory, if there is one; False: refuse to start there
    progress: show a bar
    profile: takes the times of all ops of this sitting

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
    ):
        keep_freed_memory()
        corpus = Corpus.from_files(config.data) if corpus is None else corpus
        config = _with_vocabulary(config, corpus)
        settings = config.training
        self.config, self.corpus, self.progress, self.profile = config, corpus, progress, profile
        self.fingerprint = corpus.fingerprint()
        self.tokenizer_text = corpus.tokenizer.dumps() if corpus.tokenizer else ""
        self.stream = BatchStream(
            *corpus.train, src_tokens=config.data.src_tokens, tgt_tokens=config.data.tgt_tokens, seed=settings.seed
        )
        self.validation = Validation.if_wanted(corpus, config)
        xp = load_array_module(settings.device)
        self.model = Transformer(config.model, seed=settings.seed, xp=xp, precision=settings.precision)
        shares = settings.micro_batches if xp is np else 1
        self.workers = Workers.for_shares(shares, settings.threads)
        self.optimizer = Adam(self.model.parameters, beta1=settings.beta1, beta2=settings.beta2, eps=settings.eps)
        self.loss_scale = LossScale.for_precision(settings.precision)
        self.unread = Unread()
        self.folder = RunFolder(settings.directory)
        self.log = MetricsLog(self.folder.metrics)
        self.update, self.saved_update, self.validated_update = 0, -1, 0
        self.interval, self.epoch_so_far = Meter(), Meter()  # since the last line; since the epoch began
        self.seconds_before = 0.0  # of earlier sittings
        self.sitting_began = self.saved_at = time.monotonic()
        self.folder.enter()
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
        self.sitting_began = self.saved_at = time.monotonic()
        self.folder.enter()
        try:
            # What overflows ends in the one line of a TrainingError, not in warnings of NumPy.
            with StopRequest() as stop, self._bar() as bar, np.errstate(all="ignore"):
                self._validate_if_due()  # the last sitting may have ended between an update and its validation
                while self.update < settings.updates and stop.signal is None:
                    self._one_update(bar)
                    self._save_if_due()
                    if stop.signal is None:
                        self._validate_if_due()
                self._save()
        finally:
            self.folder.leave()
        return Outcome(self.update, stop.signal)

    def epoch_of(self, update: int) -> int:
        """The epoch, counted from 1, of the first micro-batch of ``update`` (counted from 1)."""
        return self.stream.position((update - 1) * self.config.training.micro_batches)[0] + 1

    def _one_update(self, bar: tqdm) -> None:
        settings, update = self.config.training, self.update + 1
        self.unread.start()
        first = self.update * settings.micro_batches
        batches = [self.stream.batch(first + i) for i in range(settings.micro_batches)]
        options = {"config": settings, "workers": self.workers, "loss_scale": self.loss_scale}
        with profiled(self.profile), timed("update"):
            result = train_step(self.model, self.optimizer, batches, update=update, **options)
        self.update = update
        self.unread.add(result)
        ends_epoch = self.epoch_of(update + 1) != self.epoch_of(update)
        if self.unread.is_full or ends_epoch or update % settings.log_every == 0:
            self._read()
            self._show(bar, result)
            self._log_if_due(result)

    def _read(self) -> None:
        """Take in the figures of the latest updates; on a GPU this waits until they are computed."""
        results, seconds = self.unread.read(self.update)
        for result in results:
            for meter in (self.interval, self.epoch_so_far):
                meter.add(result, seconds)

    def _log_if_due(self, result: StepResult) -> None:
        update = self.update
        if update % self.config.training.log_every == 0:
            speed = {"learning_rate": result.learning_rate, **self.interval.speed()}
            self._write("train", self.interval.losses() | speed)
            self.interval.clear()
        if self.epoch_of(update + 1) != self.epoch_of(update):
            self._write("epoch", self.epoch_so_far.losses() | {"tokens": self.epoch_so_far.tokens})
            self.epoch_so_far.clear()

    def _validate_if_due(self) -> None:
        settings = self.config.training
        if self.validation is None or self.update <= self.validated_update:
            return
        if self.update % settings.validate_every == 0 or self.update == settings.updates:
            self._save()  # who asked this process to end may not wait until a long validation is over
            self._write("valid", self.validation.measure(self.model))
            self.validated_update = self.update

    def _write(self, kind: str, values: dict) -> None:
        where = {"update": self.update, "epoch": self.epoch_of(max(self.update, 1))}
        self.log.write(kind, **where, **values, seconds=round(self._seconds(), 3))

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.sitting_began

    def _save_if_due(self) -> None:
        settings = self.config.training
        by_count = settings.save_every and self.update % settings.save_every == 0
        by_clock = settings.save_minutes and time.monotonic() - self.saved_at >= 60 * settings.save_minutes
        if by_count or by_clock:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint of this update, unless it is there already, and delete the oldest beyond the limit."""
        if self.saved_update == self.update:
            return
        self._read()
        if not np.isfinite(to_numpy(self.model.parameters.data)).all():
            raise TrainingError(
                f"train: parameters must be finite to be saved, got some that are not after update {self.update}; "
                "the checkpoints before it are whole; lower training.lr_scale or set training.clip_norm"
            )
        self.log.sync()
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
                "interval": self.interval.to_dict(),
                "epoch_so_far": self.epoch_so_far.to_dict(),
                "seconds": self._seconds(),
                "loss_scale": self.loss_scale.to_dict(),
            },
        )
        self.folder.prune(self.config.training.keep_checkpoints, self.update)
        self.saved_update, self.saved_at = self.update, time.monotonic()

    def _start(self, resume: bool) -> None:
        """Bring folder, log, model and counters to the newest whole checkpoint, or to update 0."""
        if not resume and self.folder.paths():
            raise CheckpointError(
                f"train: training.directory must hold no checkpoints to begin anew, got {self.folder.directory} with "
                f"{len(self.folder.paths())}; resume, choose another directory or delete them"
            )
        checkpoint = self.folder.newest_whole(self._say)
        if checkpoint is not None:
            check_same_run(checkpoint, self.config, self.tokenizer_text, self.fingerprint)
            checkpoint.restore(self.model, self.optimizer)
            self.update = self.saved_update = checkpoint.update
            self.interval = Meter(**checkpoint.progress["interval"])
            self.epoch_so_far = Meter(**checkpoint.progress["epoch_so_far"])
            self.seconds_before = checkpoint.progress["seconds"]
            if self.loss_scale.is_needed and checkpoint.progress.get("loss_scale", {}).get("is_needed"):
                self.loss_scale = LossScale(**checkpoint.progress["loss_scale"])
            self._say(f"train: resumed from {checkpoint.path}")
        elif self.corpus.n_empty + self.corpus.n_long:
            self._say(
                f"train: left out {self.corpus.n_empty} pairs with an empty side and {self.corpus.n_long} longer than "
                f"{self.config.data.max_length} tokens, end mark included"
            )
        lines = self.log.cut_after(self.update)
        self.validated_update = max((line["update"] for line in lines if line["kind"] == "valid"), default=0)

    def _bar(self) -> tqdm:
        # Into a file, where a bar cannot be drawn over itself, it is drawn anew only now and then.
        pause = 0.2 if sys.stderr.isatty() else 30.0
        total = self.config.training.updates
        done = min(self.update, total)
        return tqdm(total=total, initial=done, unit="update", disable=not self.progress, mininterval=pause)

    def _show(self, bar: tqdm, result: StepResult) -> None:
        seen = self.interval.losses() | self.interval.speed()
        bar.set_postfix_str(
            f"loss {seen['loss']:.3f}, ppl {seen['ppl']:.2f}, {seen['tokens_per_second']:.0f} tgt tokens/s, "
            f"lr {result.learning_rate:.2e}",
            refresh=False,
        )
        bar.update(self.update - bar.n)

    def _say(self, message: str) -> None:
        tqdm.write(message, file=sys.stderr)


def _with_vocabulary(config: Config, corpus: Corpus) -> Config:
    """``config`` with model.vocab_size taken from the tokenizer; checks what would otherwise fail hours later."""
    model, tokenizer = config.model, corpus.tokenizer
    pieces = tokenizer.vocab_size if tokenizer else model.vocab_size
    if pieces == 0:
        raise ConfigError("model.vocab_size must be given for a corpus of ids, got 0")
    if model.vocab_size not in (0, pieces):
        raise ConfigError(
            f"model.vocab_size must be the tokenizer's {pieces}, got {model.vocab_size}; leave it out or make it equal"
        )
    if model.positions == "learned" and corpus.longest() > model.max_positions:
        raise ConfigError(
            f"model.max_positions must be at least the longest sentence, {corpus.longest()} tokens with its end mark, "
            f"got {model.max_positions}; raise it or lower data.max_length"
        )
    return replace(config, model=replace(model, vocab_size=pieces))
