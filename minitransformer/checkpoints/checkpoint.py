"""A checkpoint: one ``.npz`` without pickle that either array library loads and NumPy alone can read.

It holds five entries: ``header`` (JSON in UTF-8: format, version, update, step count, config, table of names,
progress), ``tokenizer`` (its text in UTF-8), and the vectors ``parameters``, ``adam_m`` and ``adam_v``. A checkpoint
without Adam's state (a mean of several) lacks the last two: it translates, but training cannot resume from it. One in
8 bits has ``codes`` and ``scales`` (`packing.py`) instead of the vectors.
"""

import errno
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from minitransformer.backend import load_array_module, to_numpy
from minitransformer.checkpoints.entries import PACKED, VECTORS, read_entries, write_entries
from minitransformer.checkpoints.header import ParameterTable, count, shapes, slices, table_from
from minitransformer.checkpoints.packing import pack, unpack
from minitransformer.config import Config
from minitransformer.errors import CheckpointError, ConfigError, DamagedCheckpointError, printable, quote
from minitransformer.files import write_atomically, write_error
from minitransformer.models import Model, build_model, model_class
from minitransformer.optim import Adam
from minitransformer.text import Tokenizer

FORMAT, VERSION = "minitransformer checkpoint", 1


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a file, as NumPy arrays.

    Attributes:
        update: updates of the parameters done so far.
        tokenizer_text: the tokenizer's file, or "" where training had ids and no tokenizer.
        parameters: (n,) the model's vector, gaps included.   adam_m, adam_v: (n,) or None (absent, or not read).
        step_count: Adam's own count.
        progress: what resuming needs besides: fingerprint of the data, loss scale, running means, seconds, --rules.
        path: where it was read from, for messages.
    """

    update: int
    config: Config
    table: ParameterTable
    parameters: np.ndarray
    tokenizer_text: str = ""
    adam_m: np.ndarray | None = None
    adam_v: np.ndarray | None = None
    step_count: int = 0
    progress: dict = field(default_factory=dict)
    path: str = ""

    def save(self, path: str | Path, *, int8: bool = False) -> None:
        """Write the file whole or not at all; a file of that name is replaced only by a whole one.

        int8: round the parameters to 8-bit integers with a scale for each row, and leave out Adam's state

        Raises:
            CheckpointError: the file cannot be written, for example because the disk is full.
        """
        header = {"format": FORMAT, "version": VERSION, "update": self.update, "step_count": self.step_count}
        header |= {"config": self.config.to_dict(), "table": self.table, "progress": self.progress}
        arrays = {"header": _bytes_of(json.dumps(header)), "tokenizer": _bytes_of(self.tokenizer_text)}
        if int8:
            arrays |= dict(zip(PACKED, pack(self.parameters, self.table), strict=True))
        else:
            arrays |= {name: getattr(self, name) for name in VECTORS if getattr(self, name) is not None}
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda file: write_entries(file, arrays))
        except OSError as error:
            raise CheckpointError(f"checkpoint: {path} {write_error(error)}") from error

    def build(self, device: str = "cpu") -> tuple[Model, Tokenizer | None]:
        """A model with these parameters, and its tokenizer (None if it was trained on ids alone).

        Raises:
            CheckpointError: the vocabulary does not fit the model.
            BackendError: the device cannot be used.
        """
        tokenizer = Tokenizer.loads(self.tokenizer_text, where=self.path) if self.tokenizer_text else None
        for name in ("vocab_size", "src_vocab_size") if tokenizer is not None else ():
            size, got = getattr(self.config.model, name), getattr(tokenizer, name)
            if size != got:
                raise CheckpointError(
                    f"checkpoint: {self.path}: the tokenizer must have the model's {name}, {size}, got {got}; use a "
                    "checkpoint that training wrote"
                )
        xp = load_array_module(device)
        # A model trained in half precision on a GPU has float32 parameters: NumPy computes with them as they are.
        execution = self.config.execution
        precision = "float32" if xp is np else execution.precision
        self._check_fits(model_class(self.config.model).parameter_shapes(self.config.model))
        model = build_model(self.config.model, xp=xp, precision=precision, kernel_mode=execution.kernels)
        self.restore(model)
        return model, tokenizer

    def restore(self, model: Model, optimizer: Adam | None = None) -> None:
        """Copy the parameters, and Adam's state if an optimizer is given, into place, name by name.

        Raises:
            CheckpointError: the names or shapes are not the model's, or Adam's state is wanted and absent.
        """
        self._check_fits(shapes(model.parameters.table))
        if optimizer is not None and self.adam_m is None:
            raise CheckpointError(
                f"checkpoint: {self.path} must hold Adam's state to resume from it, got parameters alone (a mean of "
                "checkpoints?); resume from a checkpoint that training wrote"
            )
        self._copy(self.parameters, model.parameters.data, model)
        if optimizer is not None:
            self._copy(self.adam_m, optimizer.m, model)
            self._copy(self.adam_v, optimizer.v, model)
            optimizer.step_count = self.step_count

    def _check_fits(self, theirs: dict[str, tuple[int, ...]]) -> None:
        ours = shapes(self.table)
        for name in [*theirs, *ours]:
            if ours.get(name) != theirs.get(name):
                raise CheckpointError(
                    f"checkpoint: {self.path}: parameter {name} must have the model's shape "
                    f"{theirs.get(name, 'none')}, got {ours.get(name, 'none')}; use the config it was trained with"
                )

    def _copy(self, stored: np.ndarray, vector, model: Model) -> None:
        """Fill ``vector`` (either library) from ``stored``. By name: the layout in memory may have changed since."""
        where, values = slices(self.table), np.zeros(len(vector), dtype=stored.dtype)
        for name, there in slices(model.parameters.table).items():
            values[there] = stored[where[name]]
        vector[...] = model.xp.asarray(values)


def save_checkpoint(path: str | Path, model: Model, optimizer: Adam, **facts) -> None:
    """Write the state of training, whole or not at all; raises what ``Checkpoint.save`` raises.

    facts: ``update`` and ``config``; ``tokenizer_text`` and ``progress``, if there are any; as in `Checkpoint`

    Raises:
        AutogradError: the model was changed after its vector of parameters was made.
        CheckpointError: the optimizer is another model's.
    """
    model.parameters.check_model()
    if optimizer.parameters is not model.parameters:
        raise CheckpointError(
            "checkpoint: the optimizer must be one of model.parameters, got another's; make a new one"
        )
    vectors = map(to_numpy, (model.parameters.data, optimizer.m, optimizer.v))
    arrays = dict(zip(VECTORS, vectors, strict=True))
    Checkpoint(**facts, **arrays, table=model.parameters.table, step_count=optimizer.step_count).save(path)


def load_checkpoint(path: str | Path, with_optimizer: bool = True) -> Checkpoint:
    """Read a checkpoint. Nothing in the file is executed: no pickle.

    with_optimizer: False leaves Adam's vectors, two thirds of the file, unread and unchecked

    Raises:
        DamagedCheckpointError: what is in the file is not what training wrote.
        CheckpointError: no such file, one that may not be read, or one of another version.
    """
    try:
        if not Path(path).is_file():
            other = "a folder; a run's are in its checkpoints/" if Path(path).is_dir() else "a device or pipe"
            got = other if Path(path).exists() else "no such file"
            raise CheckpointError(f"checkpoint: {path} must be a file that training wrote, got {got}")
        return _read(path, unwanted=() if with_optimizer else VECTORS[1:])
    except (CheckpointError, MemoryError):
        raise
    except ConfigError as error:  # the bytes match their checksums: the file is not damaged
        raise CheckpointError(
            f"checkpoint: {path} must be used with the version or program that wrote it: {error}"
        ) from error
    except Exception as error:  # damaged bytes make zipfile, NumPy and JSON raise nearly anything
        # A damaged offset is an invalid argument to the operating system.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise CheckpointError(f"checkpoint: {path} cannot be read: {error.strerror}") from error
        first_line = str(error).split("\n")[0]  # in the rest NumPy says how to load what is unsafe
        reason = printable(f"{type(error).__name__}: {first_line}", 120)
        raise DamagedCheckpointError(
            f"checkpoint: {path} must be a whole checkpoint, got a damaged or foreign file ({reason}); "
            "use another one, such as the one before it"
        ) from error


def load_model(path: str | Path, device: str = "cpu") -> tuple[Model, Tokenizer | None]:
    """The model of a checkpoint and its tokenizer; raises what ``load_checkpoint`` and ``Checkpoint.build`` raise."""
    return load_checkpoint(path, with_optimizer=False).build(device)


def _read(path: str | Path, unwanted: tuple[str, ...]) -> Checkpoint:
    """The checkpoint without the ``unwanted`` entries; raises anything if the file is damaged."""
    arrays = read_entries(path, unwanted)
    header = json.loads(_text_of(arrays["header"]))
    if header["format"] != FORMAT:
        raise ValueError("another format")
    if header["version"] != VERSION:
        raise CheckpointError(
            f"checkpoint: {path} must have format version {VERSION}, got {quote(header['version'])}; "
            "load it with the version of minitransformer that wrote it"
        )
    config = Config.from_dict(header["config"], "its config")
    if PACKED[0] in arrays and VECTORS[0] in arrays:
        raise ValueError("it has its parameters twice")
    length = len(arrays[PACKED[0] if PACKED[0] in arrays else VECTORS[0]])
    table = table_from(header["table"], length)
    if PACKED[0] in arrays:
        arrays[VECTORS[0]] = unpack(*(arrays[name] for name in PACKED), table, config.model.dtype)
    vectors = {name: arrays[name] for name in VECTORS if name in arrays}
    for name, vector in vectors.items():
        if vector.shape != (length,) or vector.dtype != config.model.dtype:
            raise ValueError(f"{name} is {vector.dtype} {vector.shape}")
    if len(vectors) == 2:
        raise ValueError("it has only one of adam_m and adam_v")
    if not np.isfinite(vectors[VECTORS[0]]).all():
        raise ValueError("its parameters have NaN or infinity")
    return Checkpoint(
        update=count(header["update"]),
        config=config,
        table=table,
        tokenizer_text=_text_of(arrays["tokenizer"]),
        step_count=count(header["step_count"]),
        progress=dict(header["progress"]),
        path=str(path),
        **vectors,
    )


def _bytes_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)


def _text_of(array: np.ndarray) -> str:
    return array.tobytes().decode("utf-8")
