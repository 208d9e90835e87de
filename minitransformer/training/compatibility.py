"""Which run may resume from which checkpoint, and what all ranks of a run must have in common."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import minitransformer
from minitransformer.backend import to_numpy
from minitransformer.checkpoints import Checkpoint, RunFolder, load_checkpoint
from minitransformer.checkpoints.same_run import MAY_CHANGE, changed_settings
from minitransformer.config import Config
from minitransformer.distributed import Communicator
from minitransformer.errors import CheckpointError, RanksError, quote
from minitransformer.files import file_hash
from minitransformer.models import Model

# Paths, and settings that concern only one machine.
MAY_DIFFER_BETWEEN_RANKS = {"data": MAY_CHANGE["data"], "training": {"directory", "threads"}}


def check_same_run(checkpoint: Checkpoint, config: Config, tokenizer_text: str, progress: dict) -> None:
    """Refuse to resume with settings, rules, tokenizer or data other than the checkpoint's, or from NaN.

    progress: what this run would write; the checkpoint's must have the same form

    Raises:
        CheckpointError: names the first key that differs, with both values.
    """
    remedy = "set it back, or choose another training.directory, keeping the parameters with training.init_from"
    for key, stored, wanted in changed_settings(checkpoint.config, config):
        raise CheckpointError(
            f"train: {key} must be {quote(stored)} to resume from {checkpoint.path}, got {quote(wanted)}; {remedy}"
        )
    is_mean, theirs = checkpoint.adam_m is None, checkpoint.progress  # `Checkpoint.restore` refuses the mean of several
    for what, same in (
        ("tokenizer", checkpoint.tokenizer_text == tokenizer_text),
        ("set of --rules", is_mean or theirs.get("rules", {}) == progress.get("rules", {})),
        ("training data", is_mean or theirs.get("fingerprint") == progress["fingerprint"]),
    ):
        if not same:
            raise CheckpointError(
                f"train: the {what} must be the one of {checkpoint.path} to resume, got another; {remedy}"
            )
    if not (is_mean or all(_has_form(theirs.get(name), own) for name, own in progress.items())):
        raise CheckpointError(
            f"train: the progress in {checkpoint.path} must be as training wrote it, got other values; delete it, and "
            "training resumes from the one before it"
        )
    for name, lowest in (("adam_m", -np.inf), ("adam_v", 0.0)):
        vector = getattr(checkpoint, name)
        if vector is not None and not (np.isfinite(vector).all() and vector.min() >= lowest):
            got = "NaN or infinity" if lowest else "NaN, infinity or negative numbers"
            raise CheckpointError(
                f"train: {name} of {checkpoint.path} must be finite to resume, got {got}; delete it, and "
                "training resumes from the one before it"
            )


def _has_form(theirs: object, own: object) -> bool:
    """Whether a value of a header has the keys and types of our own, and numbers that arithmetic can take."""
    if isinstance(own, dict):
        is_table = isinstance(theirs, dict) and theirs.keys() == own.keys()
        return is_table and all(_has_form(theirs[key], value) for key, value in own.items())
    if type(own) is float:
        return type(theirs) in (int, float) and abs(theirs) < 1 << 63
    return type(theirs) is type(own) and (type(own) is not int or 0 <= theirs < 1 << 63)


def check_same_job(ranks: Communicator, config: Config, fingerprint: str) -> None:
    """Refuse to train with code, a config or data other than rank 0's.

    Raises:
        RanksError: on every rank; it names the first rank that differs, and what differs.
    """
    if ranks.size == 1:
        return
    facts = {"the code (hash of its files)": code_hash(), "the training data (fingerprint)": fingerprint}
    tables = config.to_dict()
    facts |= {
        f"{section}.{name}": value
        for section in ("model", "data", "training", "execution")
        for name, value in tables[section].items()
        if name not in MAY_DIFFER_BETWEEN_RANKS.get(section, ())
    }
    _check_same(ranks, facts)


def check_same_start(ranks: Communicator, model: Model) -> None:
    """Refuse to begin with parameters other than rank 0's: training.init_from may be another file on another machine.

    Raises:
        RanksError: as `check_same_job`.
    """
    if ranks.size > 1:
        digest = hashlib.sha256(to_numpy(model.parameters.data)).hexdigest()
        _check_same(ranks, {"the initial parameters (hash; drawn, or of training.init_from)": digest})


def _check_same(ranks: Communicator, facts: dict) -> None:
    first, *others = (json.loads(text) for text in ranks.gather_text(json.dumps(facts)))
    for rank, theirs in enumerate(others, start=1):
        for name in first | theirs:  # the first that differs, in this order
            if first.get(name) != theirs.get(name):
                raise RanksError(
                    f"rank {rank} must have rank 0's value of {name}, {_format(first.get(name))}, "
                    f"got {_format(theirs.get(name))}"
                )


def newest_for_all(ranks: Communicator, folder: RunFolder, warn: Callable[[str], object]) -> Checkpoint | None:
    """The newest whole checkpoint that rank 0 finds; the others load the file of that name, if it has the same bytes.

    Raises:
        CheckpointError: a rank finds another file, or none; also what ``RunFolder.newest_whole`` raises.
    """
    if ranks.rank == 0:
        checkpoint = folder.newest_whole(warn)
        if ranks.size > 1:
            path = Path(checkpoint.path) if checkpoint else None
            ranks.gather_text(json.dumps([path.name, file_hash(path)] if path else None))
        return checkpoint
    found = json.loads(ranks.gather_text("null")[0])
    if found is None:
        return None
    path, wanted = folder.checkpoints / found[0], found[1]
    actual = file_hash(path) if path.is_file() else "no such file"
    if actual != wanted:
        raise CheckpointError(
            f"checkpoint: {path} must be the file that rank 0 resumes from (SHA-256 {wanted[:16]}...), got "
            f"{_format(actual)}; training.directory must be a folder that all ranks see"
        )
    return load_checkpoint(path)


def code_hash() -> str:
    """SHA-256 of all source files of this package, by name and content."""
    folder, digest = Path(minitransformer.__file__).parent, hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_hash(path)}\0".encode())
    return digest.hexdigest()


def _format(value: object) -> str:
    text = str(value)
    return f"{text[:16]}..." if len(text) == 64 else quote(value)
