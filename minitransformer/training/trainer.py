"""A training run from start to end: updates, progress, metrics, validation, checkpoints, exact resume."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict

import numpy as np
from tqdm import tqdm

from minitransformer import kernels
from minitransformer.allocator import keep_freed_memory
from minitransformer.backend import load_array_module, to_numpy
from minitransformer.checkpoints import RunFolder, save_checkpoint
from minitransformer.config import Config
from minitransformer.distributed import ProcessGroup
from minitransformer.errors import AnomalyError, TrainingError
from minitransformer.kernels.profile import Profile
from minitransformer.models import build_model
from minitransformer.optim import Adam, LossScale
from minitransformer.planning.flops import Cost, batch_flops, measure_rate
from minitransformer.training.accumulation import GradientAccumulator, threads_of_rank
from minitransformer.training.compatibility import check_same_job, check_same_run, check_same_start, newest_for_all
from minitransformer.training.corpus import Corpus, with_vocabulary
from minitransformer.training.init_from import initialize
from minitransformer.training.metrics import StepResult
from minitransformer.training.micro_batches import MicroBatches
from minitransformer.training.nonfinite import NonfiniteUpdates, explain_anomaly
from minitransformer.training.progress import Progress
from minitransformer.training.recorder import MetricsRecorder
from minitransformer.training.signals import Outcome, StopRequest
from minitransformer.training.step import train_step
from minitransformer.training.validation import Validation
from minitransformer.workers import Workers, limit_threads


class Trainer:
    """Trains a model according to ``config``.

    The state after update u follows from (config, data, u) alone: batches and dropout masks are drawn from
    (seed, update), so a run that was killed resumes bit for bit (a GPU and NumPy draw different masks). Several ranks
    share the micro-batches of each update; only rank 0 writes and validates.

    corpus: the training data; None: read the files of the [data] section
    progress: show a bar
    profile: records the time of every rule until the run ends
    process_group: the ranks that train together, made by ``init_process_group``; None for this process alone
    on_update, on_validation: called with this Trainer and a StepResult, or the dict of metrics, to which it may add; if
        it sets ``should_stop`` of the Trainer, the run ends (several ranks: after one more update)
    rules: names and hashes of the functions that replace the engine's rules, if the caller has replaced any;
        checkpoints record them, and a run resumes only with the same ones

    Raises:
        ConfigError, DataError, BackendError: the config or the data is invalid, or the device is not available.
        CheckpointError: the checkpoints in the directory belong to another run, or all are damaged.
    """

    def __init__(
        self,
        config: Config,
        corpus: Corpus | None = None,
        *,
        progress: bool = True,
        profile: Profile | None = None,
        process_group: ProcessGroup | None = None,
        on_update: Callable[["Trainer", StepResult], object] = lambda trainer, result: None,
        on_validation: Callable[["Trainer", dict], object] = lambda trainer, metrics: None,
        rules: Mapping[str, str] | None = None,
    ):
        keep_freed_memory()
        corpus = Corpus.from_files(config.data) if corpus is None else corpus
        config = with_vocabulary(config, corpus)
        self.config, self.corpus, self.profile, self.rules = config, corpus, profile, dict(rules or {})
        self.on_update, self.on_validation, self.should_stop = on_update, on_validation, False
        self.fingerprint = corpus.fingerprint()
        self.tokenizer_text = corpus.tokenizer.dumps() if corpus.tokenizer else ""
        training, stream = config.training, corpus.stream(config)
        self.validation = Validation.if_wanted(corpus, config)
        self._connect(process_group or ProcessGroup())
        self.batches = MicroBatches(stream, training.micro_batches, self.ranks.rank, self.ranks.size)
        self.progress = Progress(self.is_rank_0, progress)
        self._build_model()
        self.folder = RunFolder(training.directory)
        self.recorder = MetricsRecorder(self.folder, self.is_rank_0, training.log_every, self.batches.epoch)
        self.update, self.saved_update, self.validated_update = 0, -1, 0
        self._open_folder()
        try:
            self._start()
        except BaseException:
            self.folder.leave()
            raise

    def run(self) -> Outcome:
        """Train until ``training.updates`` updates are done, or until SIGINT, SIGTERM or SIGHUP; then save.

        Raises:
            TrainingError (several ranks: RanksError): a loss or gradient is NaN or infinite, and is not to be skipped
                (training.skip_nonfinite). The checkpoints stay as they were.
        """
        updates = self.config.training.updates
        self._open_folder()
        self.recorder.start_clock()
        self.saved_at = time.monotonic()
        try:
            bar = self.progress.bar(self.update, updates)
            # An overflow is reported by one TrainingError, not by NumPy's warnings.
            quiet, mode = np.errstate(all="ignore"), kernels.mode(self.config.execution.kernels)
            threads = limit_threads(threads_of_rank(self.config.training, self.ranks.size))
            with StopRequest() as stop, bar, quiet, mode, threads:
                self._validate_if_due()  # the run may have been stopped between an update and its validation
                self.accumulator.wants_to_stop, self.accumulator.stop_wishes = (lambda: stop.signal is not None), 0.0
                while self.update < updates and not self._stops():
                    self._validate_if_due()  # still due if a signal came after the sum of an update
                    self._one_update(bar)
                    self._save_if_due()
                    if stop.signal is None:
                        self._validate_if_due()
                self._save()
                signals = self.ranks.gather_text(str(stop.signal or 0))
                return Outcome(self.update, max(map(int, signals)) or None)
        finally:
            self.recorder.stop_clock()
            self.folder.leave()

    def cost(self) -> Cost:
        """What the updates so far have cost. Reads the lengths of all batches, and times a matrix product."""
        seconds, shapes = self.recorder.seconds(), self.batches.shapes(self.update)
        with self.ranks.busy():
            formula = sum(batch_flops(self.config.model, *shape) for shape in shapes)
            return Cost(formula, seconds, self.ranks.size, measure_rate(self.xp))

    def _connect(self, process_group: ProcessGroup) -> None:
        """Load the array library of this rank, and connect to the other ranks."""
        if self.config.execution.device != "cpu":
            process_group.use_own_gpu()
        self.xp = load_array_module(self.config.execution.device)
        self.ranks = process_group.connect(self.config.training, on_gpu=self.xp is not np)
        self.is_rank_0 = self.ranks.rank == 0
        check_same_job(self.ranks, self.config, self.fingerprint)

    def _build_model(self) -> None:
        """Build the model, the gradient accumulator and the optimizer."""
        training, execution = self.config.training, self.config.execution
        self.model = build_model(self.config.model, training.seed, self.xp, execution.precision, execution.kernels)
        self.model.parameters.freeze(training.freeze.split())
        shares = -(-training.micro_batches // self.ranks.size) if self.xp is np else 1
        self.workers = Workers.for_shares(shares, threads_of_rank(training, self.ranks.size))
        self.optimizer = Adam(self.model.parameters, training.beta1, training.beta2, training.eps)
        self.accumulator = GradientAccumulator(
            self.model.parameters,
            workers=self.workers,
            ranks=self.ranks,
            scale=LossScale.for_precision(execution.precision),
            tokens_of_update=self.batches.n_tgt_tokens if self.ranks.size > 1 else None,
        )
        self.nonfinite = NonfiniteUpdates(self.model.parameters, self.ranks.size, training.skip_nonfinite)

    def _open_folder(self) -> None:
        if self.is_rank_0:
            self.folder.enter()

    def _one_update(self, bar: tqdm) -> None:
        update = self.update + 1
        self.recorder.begin_update()
        batches = self.batches.of_rank(update)
        options = {"update": update, "config": self.config.training, "accumulator": self.accumulator}
        try:
            with self.profile.time_update() if self.profile else nullcontext():
                result = train_step(self.model, self.optimizer, batches, **options)
        except AnomalyError as error:
            raise explain_anomaly(update, error, self.model.parameters) from error
        if not (result.is_finite or self.accumulator.found_inf(result.loss)):
            self.recorder.write("skipped", update, {"reason": self.nonfinite.skip_or_raise(update, result)})
        self.update = update
        self.recorder.add(result)
        self.progress.show(bar, self.recorder.interval, update, result.learning_rate)
        self.recorder.write_if_due(update, result.learning_rate)
        self.on_update(self, result)

    def _stops(self) -> bool:
        """Whether to make no further update; the same on all ranks, which have summed their wishes."""
        wishes = self.accumulator
        wishes.wants_to_stop = (lambda: True) if self.should_stop else wishes.wants_to_stop
        return wishes.stop_wishes > 0 or (self.ranks.size == 1 and wishes.wants_to_stop())

    def _validate_if_due(self) -> None:
        training = self.config.training
        if not self.is_rank_0 or self.validation is None or self.update <= self.validated_update:
            return
        if self.update % training.validate_every == 0 or self.update == training.updates:
            self._save()  # a job that is stopped may be killed before a long validation is over
            with self.ranks.busy():
                metrics = self.validation.measure(self.model)
                self.on_validation(self, metrics)
                self.recorder.write("valid", self.update, metrics)
            self.validated_update = self.update

    def _save_if_due(self) -> None:
        training = self.config.training
        by_count = training.save_every and self.update % training.save_every == 0
        by_clock = training.save_minutes and time.monotonic() - self.saved_at >= 60 * training.save_minutes
        if by_count or by_clock:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint of this update, unless it is there already, and delete the oldest beyond the limit.

        A lowered limit is first applied to those up to the newest whole one: on a full disk that makes room.
        """
        if not self.is_rank_0 or self.saved_update == self.update:
            return
        self.folder.check()
        self.folder.prune(self.config.training, self.saved_update)
        with self.ranks.busy():
            self._write_checkpoint()
        self.folder.prune(self.config.training, self.update)
        self.saved_update, self.saved_at = self.update, time.monotonic()

    def _write_checkpoint(self) -> None:
        if not np.isfinite(to_numpy(self.model.parameters.data)).all():
            raise TrainingError(
                f"train: parameters must be finite to be saved, got others after update {self.update}; checkpoints "
                "before it are whole; lower training.lr_scale or set training.clip_norm, in another training.directory"
            )
        self.recorder.sync()
        facts = {"config": self.config, "tokenizer_text": self.tokenizer_text, "progress": self._progress()}
        save_checkpoint(self.folder.path_of(self.update), self.model, self.optimizer, update=self.update, **facts)

    def _progress(self) -> dict:
        """What resuming needs besides the model and the optimizer."""
        facts = {"fingerprint": self.fingerprint, "loss_scale": asdict(self.accumulator.scale)}
        return facts | ({"rules": self.rules} if self.rules else {}) | self.recorder.to_dict()

    def _start(self) -> None:
        """Restore the model, the optimizer and the metrics from the newest whole checkpoint, if there is one."""
        checkpoint = newest_for_all(self.ranks, self.folder, self.progress.write)
        if checkpoint is not None:
            check_same_run(checkpoint, self.config, self.tokenizer_text, self._progress())
            checkpoint.restore(self.model, self.optimizer)
            self.update = self.saved_update = checkpoint.update
            self.recorder.restore(checkpoint.progress)
            self.accumulator.restore_scale(checkpoint.progress["loss_scale"])
            self.progress.write(f"train: resumed from {checkpoint.path}")
        else:
            self.progress.write(self.corpus.left_out())
            self.progress.write(initialize(self.model, self.corpus.tokenizer, self.config.training.init_from))
            check_same_start(self.ranks, self.model)
        lines = self.recorder.cut_after(self.update)
        self.validated_update = max((line["update"] for line in lines if line["kind"] == "valid"), default=0)
