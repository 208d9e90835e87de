"""Checkpoints that cannot be loaded: only damaged ones are called damaged."""

import errno
import json
import os
import pickle
import warnings
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest
from systems import needs
from tiny_run import save_untrained

from minitransformer.checkpoints import checkpoint, load_checkpoint
from minitransformer.errors import CheckpointError, DamagedCheckpointError
from minitransformer.files import write_atomically
from tests.reliability.damage import entries_of, npy, packed


@pytest.fixture
def saved(tmp_path):
    """The path of a checkpoint of a model."""
    return save_untrained(tmp_path / "one.npz")


def test_a_checkpoint_cut_anywhere_is_refused(saved, rng):
    whole = saved.read_bytes()
    for length in [0, 1, len(whole) - 1, *rng.integers(2, len(whole) - 1, 30)]:
        saved.write_bytes(whole[:length])
        with pytest.raises(DamagedCheckpointError, match=r"one\.npz must be a whole checkpoint.*use another") as caught:
            load_checkpoint(saved)
        assert "\n" not in str(caught.value)


class Bomb:
    """Unpickling it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_foreign_files_are_refused_and_never_executed(tmp_path):
    path, bomb = tmp_path / "foreign.npz", tmp_path / "executed"
    pickled = pickle.dumps(Bomb(str(bomb)))
    writers = {
        "text": lambda file: file.write(b"hello\n"),
        "pickle": lambda file: file.write(pickled),
        "npy": lambda file: np.save(file, np.zeros(3)),
        "npz": lambda file: np.savez(file, weights=np.zeros(3)),
        "npz with objects": lambda file: np.savez(file, header=np.array([Bomb(str(bomb))], dtype=object)),
        "npz with a header": lambda file: np.savez(file, header=np.frombuffer(b'{"format": "x"}', np.uint8)),
    }
    for write in writers.values():
        write_atomically(path, write)
        with pytest.raises(DamagedCheckpointError, match="damaged or foreign"):
            load_checkpoint(path)
    assert not bomb.exists()


def refusal_of_undamaged(path) -> str:
    """The message with which a file is refused that is not damaged, and therefore must not be deleted."""
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert type(caught.value) is CheckpointError and "delete" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    assert refusal_of_undamaged(tmp_path / "none.npz").endswith("must be a file that training wrote, got no such file")
    assert refusal_of_undamaged(tmp_path).endswith("got a folder; a run's are in its checkpoints/")


def test_a_newer_format_is_refused_as_such(saved, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", 0)
    assert "must have format version 0, got 1" in refusal_of_undamaged(saved)


def test_an_array_header_that_pythons_parser_has_no_memory_for_is_called_damage(saved):
    entries = entries_of(saved.read_bytes())
    text = b"-" * 9000 + b"1\n"
    entries["parameters.npy"] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    saved.write_bytes(packed(list(entries.items())))
    with pytest.raises(DamagedCheckpointError, match="must be a whole checkpoint, got a damaged"):
        load_checkpoint(saved)


def change(path, act) -> None:
    """Rewrite the checkpoint, with correct checksums, after ``act(header, arrays)``."""
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(arrays["header"].tobytes())
    act(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)


WRONG = {
    "negative update": lambda header, _: header.update(update=-1),
    "update with a fraction": lambda header, _: header.update(update=7.5),
    "true for a count": lambda header, _: header.update(step_count=True),
    "no progress": lambda header, _: header.update(progress=None),
    "offset with a fraction": lambda header, _: header["table"][0].__setitem__(2, 0.0),
    "shape with a fraction": lambda header, _: header["table"][0].__setitem__(1, [20.0, 16]),
    "more axes than any array has": lambda header, _: header["table"][0].__setitem__(1, [1] * 100),
    "parameters that overlap": lambda header, _: header["table"][1].__setitem__(2, header["table"][0][2]),
    "a parameter twice": lambda header, _: header["table"].insert(0, header["table"][0][:1] + [[0], 0]),
    "parameters beyond the end": lambda header, _: header["table"][0].__setitem__(2, 10**9),
    "parameters with NaN": lambda _, arrays: np.put(arrays["parameters"], 0, np.nan),  # a row that no sentence reads
    "half of Adam": lambda _, arrays: arrays.pop("adam_v"),
    "an unknown entry": lambda _, arrays: arrays.update(junk=np.zeros(3)),
    "a step count that no float holds": lambda header, _: header.update(step_count=10**400),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_values_that_no_training_writes_are_refused(saved, wrong):
    change(saved, WRONG[wrong])
    with pytest.raises(DamagedCheckpointError, match="must be a whole checkpoint, got a damaged or foreign file"):
        load_checkpoint(saved)


BOMBS = ["a compressed entry", "a compressed vector", "an array header", "a size beyond the file", "an entry twice"]


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_states_a_large_array_is_refused_in_small_memory(saved, bomb, peak_memory):
    """What an entry states is compared with the file before memory is taken for it."""
    entries = entries_of(saved.read_bytes())
    large = npy("<f4", (5_000_000,), bytes(20_000_000))
    with zipfile.ZipFile(saved, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice
        for name, content in entries.items():
            if bomb in BOMBS[2:4] and name == "parameters.npy":
                content = npy("<f4", (5_000_000,), b"")
            if bomb == "a compressed vector" and name == "parameters.npy":
                archive.writestr(name, large, zipfile.ZIP_DEFLATED)
            else:
                archive.writestr(name, content)
        if bomb == "a size beyond the file":
            archive.getinfo("parameters.npy").file_size = len(large)
        if bomb == "a compressed entry":
            archive.writestr("junk.npy", large, zipfile.ZIP_DEFLATED)
        if bomb == "an entry twice":
            archive.writestr("parameters.npy", entries["parameters.npy"])
    del large, content
    peak_memory()
    before = peak_memory()
    with pytest.raises(DamagedCheckpointError):
        load_checkpoint(saved)
    assert peak_memory() - before < 5_000_000


@needs("named pipes")
def test_a_pipe_in_the_place_of_a_checkpoint_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    assert refusal_of_undamaged(tmp_path / "pipe.npz").endswith("got a device or pipe")


def test_an_unknown_config_key_means_another_version_not_damage(saved):
    change(saved, lambda header, _: header["config"]["model"].update(n_experts=8))
    message = refusal_of_undamaged(saved)
    assert "must be used with the version or program that wrote it" in message and "unknown key 'n_experts'" in message


@pytest.mark.parametrize(
    ("name", "high"), [("beam_size", 100), ("max_extra", 1000), ("max_input_length", 10_000), ("batch_tokens", 1 << 20)]
)
def test_a_search_of_hours_is_not_begun_because_a_checkpoint_says_so(saved, name, high):
    change(saved, lambda header, _: header["config"]["translation"].update({name: high + 1}))
    assert f"translation.{name} must be at most {high}, got {high + 1}" in refusal_of_undamaged(saved)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_a_file_that_the_system_cannot_read_is_not_called_damaged(saved, monkeypatch, number):
    monkeypatch.setattr(zipfile, "ZipFile", Mock(side_effect=OSError(number, os.strerror(number))))
    assert refusal_of_undamaged(saved).endswith(f"one.npz cannot be read: {os.strerror(number)}")


def test_too_little_memory_for_a_whole_checkpoint_is_not_called_damage(saved, monkeypatch):
    monkeypatch.setattr(np.lib.format, "read_array", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        load_checkpoint(saved)
