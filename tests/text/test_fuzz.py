"""Untrusted files: each reader accepts a file or refuses it in one line, in bounded time and memory."""

import io
import json
import os
import shutil
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("the limits of a process are Linux's", allow_module_level=True)
from minitransformer.errors import DataError
from tests.reliability.damage import entries_of, npy, packed
from tests.reliability.fuzz import count
from tests.reliability.readers import NAME, READERS
from tests.reliability.sandbox import Limits, Reader, outcomes, rng_of

INPUTS = 200
"""Inputs of each reader; the long form has hundreds of times as many."""


@pytest.fixture(scope="module")
def readers(tmp_path_factory) -> dict[str, Reader]:
    return {name: reader(tmp_path_factory.mktemp(name)) for name, reader in READERS.items()}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_accepts_a_damaged_file_or_refuses_it_in_one_line(readers, name, tmp_path):
    counts, _ = count(readers[name], 1, INPUTS, tmp_path / "input")
    assert set(counts) == {"accepted", "refused"} and counts.total() == INPUTS
    assert min(counts.values()) >= 3


def with_config(section, **values):
    """A checkpoint with other values in its config, with correct checksums."""

    def write(reader, folder):
        entries = entries_of(reader.valid[0])
        header = json.loads(bytes(np.load(io.BytesIO(entries["header.npy"]))))
        header["config"][section] |= values
        data = json.dumps(header).encode()
        entries["header.npy"] = npy("|u1", (len(data),), data)
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / NAME).write_bytes(packed(list(entries.items())))

    return write


FOUND = {
    "escape sequences in the name of a section": (
        "config",
        lambda _, folder: (folder / "words").write_bytes(b"\x1b[31mmodel.x=1"),
    ),
    "a model far larger than its file": ("checkpoint", with_config("model", d_model=30000)),
    "paths in a checkpoint that lead elsewhere": (
        "checkpoint",
        with_config("data", tokenizer="/etc/passwd", train_src="../../x", valid_tgt="C:\\x"),
    ),
    "a line of Marian's settings with 100,000 spaces in it": (
        "foreign",
        lambda _, folder: np.savez(
            folder / "settings.npz", **{"special:model.yml": np.frombuffer(b"a: b" + b" " * 100_000 + b"c", np.int8)}
        ),
    ),
    "a symbol of millions of letters": (
        "tokenizer",
        lambda _, folder: (folder / "bpe.txt").write_text(
            f"#minitransformer-bpe version 1\nmode words\nbase 1\n{'a' * (1 << 22)}\nmerges 0\n"
        ),
    ),
}
"""Files that once exposed a defect: each must be refused in one line, within the limits. Others are in the tests of
their readers: test_damaged_pairs.py, test_unreadable_checkpoints.py, test_config.py."""
HARMLESS = {"paths in a checkpoint that lead elsewhere", "a symbol of millions of letters"}
"""Files that must be accepted instead: the paths are not followed."""


class Recipe(Reader):
    """One file."""

    def __init__(self, reader, write):
        self.name, self.reader, self.recipe = reader.name, reader, write

    def write(self, rng, folder):
        self.recipe(self.reader, folder)

    def read(self, folder):
        self.reader.read(folder)


@pytest.mark.parametrize("defect", FOUND)
def test_a_file_that_exposed_a_defect_is_handled_correctly(readers, defect, tmp_path):
    name, write = FOUND[defect]
    (outcome,) = outcomes(Recipe(readers[name], write), 0, range(1), tmp_path / "input", Limits(memory=128 << 20))
    assert (outcome.fault, outcome.accepted) == ("", defect in HARMLESS)


def endless():
    while True:
        pass


def refuse():
    raise DataError("a clear line")


FAULTS = {
    "": refuse,
    "KeyError at": lambda: {}["x"],
    "MemoryError at": lambda: bytearray(1 << 30),
    "the process died of SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "more than 0.3 s of CPU": endless,
    "open outside of the folder, '/etc/passwd'": lambda: Path("/etc/passwd").read_bytes(),
    "UserWarning: odd": lambda: warnings.warn("odd", stacklevel=1),
    "exec by a reader": lambda: eval("1 + 1"),
}


class Faulty(Reader):
    """A reader that has every fault, one after the other."""

    name = "faulty"

    def write(self, rng, folder):
        attempts = self.folder / "attempts"
        attempts.write_bytes((attempts.read_bytes() if attempts.exists() else b"") + b"x")
        (folder / "fault").write_text(list(FAULTS)[attempts.stat().st_size - 1])

    def read(self, folder):
        FAULTS[(folder / "fault").read_text()]()


def test_every_fault_of_a_reader_is_found_and_its_input_named(tmp_path):
    limits = Limits(cpu_seconds=0.3)
    found = list(outcomes(Faulty(tmp_path), 1, range(len(FAULTS)), tmp_path / "input", limits))
    assert [outcome.index for outcome in found] == list(range(len(FAULTS)))
    for outcome, fault in zip(found, FAULTS, strict=True):
        assert outcome.fault.startswith(fault) and bool(outcome.fault) == bool(fault), outcome


class Hanging(Reader):
    """A reader that waits for what never comes."""

    name = "hanging"

    def write(self, rng, folder):
        os.mkfifo(folder / "pipe")

    def read(self, folder):
        (folder / "pipe").read_bytes()


def test_a_reader_that_hangs_is_ended(tmp_path):
    (outcome,) = outcomes(Hanging(tmp_path), 1, range(1), tmp_path / "input", Limits(seconds=0.2))
    assert outcome.fault == "more than 0.2 s"


def test_an_input_depends_on_its_number_alone(readers, tmp_path):
    for name, reader in readers.items():
        texts = []
        for index in (3, 5, 3):
            folder = tmp_path / "input"  # always the same one: hostile names have its path
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            reader.write(rng_of(name, 1, index), folder)
            texts.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        assert texts[0] == texts[2] != texts[1], name
