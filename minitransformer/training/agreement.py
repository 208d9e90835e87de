"""What all ranks of a run must have alike before the first update: code, config, data, and the checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import minitransformer
from minitransformer.checkpoints.checkpoint import Checkpoint, load_checkpoint
from minitransformer.checkpoints.run_folder import RunFolder
from minitransformer.config import Config
from minitransformer.distributed import Communicator
from minitransformer.errors import CheckpointError, RanksError
from minitransformer.training.resume import MAY_CHANGE, SECTIONS

# Where files lie, and what concerns one machine alone.
MAY_DIFFER = {"data": MAY_CHANGE["data"], "training": {"directory", "threads"}}


def check_same_job(ranks: Communicator, config: Config, fingerprint: str) -> None:
    """Refuse to train with other code, another config or other data than rank 0's.

    Raises:
        RanksError: on every rank; it names the first rank that differs, and what differs.
    """
    if ranks.size == 1:
        return
    facts = {"the code (hash of its files)": code_hash(), "the training data (fingerprint)": fingerprint}
    tables = config.to_dict()
    facts |= {
        f"{section}.{name}": value
        for section in SECTIONS
        for name, value in tables[section].items()
        if name not in MAY_DIFFER.get(section, ())
    }
    first, *others = (json.loads(text) for text in ranks.gather_text("facts", json.dumps(facts)))
    for rank, theirs in enumerate(others, start=1):
        for name in sorted(first.keys() | theirs.keys(), key=lambda name: name.startswith("the code"), reverse=True):
            if first.get(name) != theirs.get(name):
                raise RanksError(
                    f"rank {rank} must have rank 0's value of {name}, {_shown(first.get(name))}, "
                    f"got {_shown(theirs.get(name))}"
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
            ranks.gather_text("checkpoint", json.dumps([path.name, file_hash(path)] if path else None))
        return checkpoint
    found = json.loads(ranks.gather_text("checkpoint", "null")[0])
    if found is None:
        return None
    path, wanted = folder.checkpoints / found[0], found[1]
    actual = file_hash(path) if path.is_file() else "no such file"
    if actual != wanted:
        raise CheckpointError(
            f"checkpoint: {path} must be the file that rank 0 resumes from (SHA-256 {wanted[:16]}...), got "
            f"{_shown(actual)}; training.directory must be a folder that all ranks see"
        )
    return load_checkpoint(path)


def code_hash() -> str:
    """SHA-256 of all source files of this package, by name and content."""
    folder, digest = Path(minitransformer.__file__).parent, hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".cu")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_hash(path)}\0".encode())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _shown(value: object) -> str:
    text = str(value)
    return f"{text[:16]}..." if len(text) == 64 else repr(value)
