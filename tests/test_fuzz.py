"""Untrusted files: each reader accepts a file or refuses it in one line, in bounded time and memory."""

import os
import signal
import warnings
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of processes: there are none on this system")
from minitransformer.errors import DataError
from tests.reliability.corpus import CORPUS, HARMLESS
from tests.reliability.fuzz.__main__ import add_inputs, new_record
from tests.reliability.fuzz.readers import READERS
from tests.reliability.fuzz.worker import Limits, Reader, outcomes, rng_of

INPUTS = 180
"""Inputs of each reader, 2,000 in all; the long form has hundreds of times as many."""


@pytest.fixture(scope="module")
def readers(tmp_path_factory) -> dict[str, Reader]:
    return {name: reader(tmp_path_factory.mktemp(name)) for name, reader in READERS.items()}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_accepts_a_damaged_file_or_refuses_it_in_one_line(readers, name, tmp_path):
    record = new_record()
    add_inputs(record, readers[name], 1, INPUTS, tmp_path / "input")
    assert record["faults"] == {} and record["inputs"] == INPUTS
    assert record["accepted"] >= 3 and record["refused"] >= 3


@pytest.mark.parametrize("defect", CORPUS)
def test_a_file_that_exposed_a_defect_is_handled_correctly(readers, defect, tmp_path):
    name, write = CORPUS[defect]
    case = Recipe(readers[name], write)
    (outcome,) = outcomes(case, 0, range(1), tmp_path / "input", Limits(memory=128 << 20))
    assert (outcome.fault, outcome.accepted) == ("", defect in HARMLESS), outcome.message


class Recipe(Reader):
    """One file of the corpus."""

    def __init__(self, reader, write):
        self.name, self.reader, self.recipe = reader.name, reader, write

    def write(self, rng, folder):
        self.recipe(self.reader, folder)

    def read(self, folder):
        self.reader.read(folder)


def endless():
    while True:
        pass


def refuse():
    raise DataError("a clear line")


FAULTS = {
    "": refuse,
    "KeyError at": lambda: {}["x"],
    "too much memory, MemoryError": lambda: bytearray(1 << 30),
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
        count = self.folder / "count"
        count.write_bytes((count.read_bytes() if count.exists() else b"") + b"x")
        (folder / "fault").write_text(list(FAULTS)[count.stat().st_size - 1])

    def read(self, folder):
        FAULTS[(folder / "fault").read_text()]()


def test_every_fault_of_a_reader_is_found_and_its_input_named(tmp_path):
    found = list(outcomes(Faulty(tmp_path), 1, range(len(FAULTS)), tmp_path / "input", Limits(cpu_seconds=0.3)))
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
            folder = tmp_path / f"{name}{index}{len(texts)}"
            folder.mkdir()
            reader.write(rng_of(name, 1, index), folder)
            texts.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        assert texts[0] == texts[2] != texts[1], name
