"""The folder of a run: ``metrics.jsonl`` and ``checkpoints/update_00001000.npz``, one file per checkpoint."""

import errno
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from minitransformer.checkpoints.checkpoint import Checkpoint, load_checkpoint
from minitransformer.config import TrainingConfig
from minitransformer.errors import CheckpointError, ConfigError, DamagedCheckpointError, TrainingError
from minitransformer.files import lock_folder, remove_temporaries, unlock

CHECKPOINT_NAME = re.compile(r"update_(\d+)\.npz")


class RunFolder:
    """Where a run keeps its files."""

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        self.checkpoints = self.directory / "checkpoints"
        self.metrics = self.directory / "metrics.jsonl"
        self._lock: int | None = None

    def enter(self) -> None:
        """Create the folder, lock it against other runs, and delete the unfinished files of a killed run.

        Raises:
            ConfigError: the folder cannot be created or written.
            TrainingError: another run uses it.
        """
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            if not (os.access(self.directory, os.W_OK) and os.access(self.checkpoints, os.W_OK)):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._lock_folder()
            remove_temporaries(self.directory, self.metrics.name)
            remove_temporaries(self.checkpoints, "update_*.npz")
        except OSError as error:
            raise ConfigError(
                f"training.directory must be a folder that can be written, got {self.directory}: {error.strerror}"
            ) from error

    def leave(self) -> None:
        """Unlock the folder."""
        unlock(self._lock)
        self._lock = None

    __del__ = leave

    def _lock_folder(self) -> None:
        if self._lock is not None:
            return
        try:
            self._lock = lock_folder(self.directory)
        except BlockingIOError:
            raise TrainingError(
                f"train: {self.directory} must be free, got another run at work in it; wait for its end, or choose "
                "another training.directory"
            ) from None
        self.check()

    def check(self) -> None:
        """To be called before anything is written: what is at the path now may belong to another run.

        Raises:
            TrainingError: the folder was deleted, moved or replaced since ``enter``.
        """
        try:
            here = os.stat(self.directory)
        except FileNotFoundError:
            here = None
        if here is None or (self._lock is not None and not os.path.samestat(here, os.fstat(self._lock))):
            raise TrainingError(
                f"train: {self.directory} must stay in place during a run, got a folder deleted, moved or replaced; "
                "move it back and resume, or start again"
            )

    def path_of(self, update: int) -> Path:
        return self.checkpoints / f"update_{update:08d}.npz"

    def paths(self) -> list[Path]:
        """The checkpoints, oldest first. Files of other names are ignored."""
        found = [(CHECKPOINT_NAME.fullmatch(path.name), path) for path in self.checkpoints.glob("*.npz")]
        return [path for _, path in sorted((int(match[1]), path) for match, path in found if match)]

    def newest_whole(self, warn: Callable[[str], object]) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None where there are none; damaged newer ones are passed to ``warn``.

        Raises:
            CheckpointError: all are damaged; or one that may be whole cannot be read, has another version, or has been
                renamed.
        """
        paths = self.paths()
        for path in reversed(paths):
            try:
                checkpoint = load_checkpoint(path)
            except DamagedCheckpointError as error:
                warn(f"skipped: {error}")
                continue
            if path.name != self.path_of(checkpoint.update).name:
                raise CheckpointError(
                    f"checkpoint: {path} must hold the update of its name, got {checkpoint.update}; rename or delete it"
                )
            return checkpoint
        if paths:
            raise CheckpointError(
                f"checkpoint: {self.checkpoints} must hold a whole checkpoint to resume from, "
                f"got {len(paths)} damaged; delete them to start from scratch"
            )
        return None

    def prune(self, training: TrainingConfig, update: int) -> None:
        """Delete all but the `newest` ``keep_checkpoints`` (0: delete none) up to ``update``.

        Those after ``update`` are damaged ones that a resumed run skipped: they must not count as the newest.
        """
        known = [path for path in self.paths() if path.name <= self.path_of(update).name]
        kept = newest(known, training.keep_checkpoints or len(known), training)
        for path in known:
            if path not in kept:
                path.unlink(missing_ok=True)


def newest(paths: Sequence[Path], count: int, training: TrainingConfig) -> list[Path]:
    """The ``count`` newest of ``paths``, oldest first: those that an uninterrupted run would have, and the last.

    Checkpoints that a signal left between two of these are used only if the others are too few.
    """

    def is_regular(path: Path) -> bool:
        return path == paths[-1] or training.saves_at(int(CHECKPOINT_NAME.fullmatch(path.name)[1]))

    return sorted(sorted(paths, key=is_regular)[-count:], key=paths.index)


def newest_checkpoints(directory: str | Path, count: int) -> list[Path]:
    """Paths of the `newest` ``count`` checkpoints of the run in ``directory``, oldest first.

    Raises:
        CheckpointError: there are fewer, ``directory`` is a file, or the last one cannot be read.
    """
    paths = RunFolder(directory).paths()
    if not paths:
        got = "a file" if os.path.isfile(directory) else "none with checkpoints that can be read"
        raise CheckpointError(f"checkpoint: {directory} must be the training.directory of a run, got {got}")
    if count < 1 or len(paths) < count:
        raise CheckpointError(
            f"checkpoint: {directory} must hold the number of checkpoints asked for, got {len(paths)}, asked {count}; "
            "ask for fewer or raise training.keep_checkpoints"
        )
    if count in (1, len(paths)):
        return paths[-count:]
    return newest(paths, count, load_checkpoint(paths[-1], with_optimizer=False).config.training)
