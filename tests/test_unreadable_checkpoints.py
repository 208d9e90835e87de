"""Checkpoints that cannot be loaded: only damaged ones are called damaged."""

import errno
import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest
from tiny_run import tiny_config

from minitransformer.checkpoints import checkpoint, load_checkpoint, load_model, save_checkpoint
from minitransformer.errors import CheckpointError, ConfigError, DamagedCheckpointError
from minitransformer.files import write_atomically
from minitransformer.models import Transformer
from minitransformer.optim import Adam


@pytest.fixture
def saved(tmp_path):
    """The path of a checkpoint of a model."""
    config = tiny_config("unused")
    model = Transformer(config.model, seed=5)
    save_checkpoint(tmp_path / "one.npz", model, Adam(model.parameters), update=7, config=config)
    return tmp_path / "one.npz"


def test_a_checkpoint_cut_anywhere_is_refused(saved, rng):
    whole = saved.read_bytes()
    for length in [0, 1, len(whole) - 1, *rng.integers(2, len(whole) - 1, 30)]:
        saved.write_bytes(whole[:length])
        with pytest.raises(DamagedCheckpointError, match=r"one\.npz must be a whole checkpoint.*delete it") as caught:
            load_checkpoint(saved)
        assert "\n" not in str(caught.value)


def test_a_changed_byte_is_refused_or_changes_nothing(saved, rng):
    whole, loaded = saved.read_bytes(), load_checkpoint(saved)
    refused = 0
    for position in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            seen = load_checkpoint(saved)
        except DamagedCheckpointError:
            refused += 1
            continue
        for name in ("parameters", "adam_m", "adam_v"):
            np.testing.assert_array_equal(getattr(seen, name), getattr(loaded, name))
        assert (seen.table, seen.config, seen.update) == (loaded.table, loaded.config, loaded.update)
    assert refused > 150


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
    assert refusal_of_undamaged(tmp_path).endswith("got a folder")


def test_a_newer_format_is_refused_as_such(saved, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", 0)
    assert "must have format version 0, got 1" in refusal_of_undamaged(saved)


def test_a_version_of_another_type_is_refused_with_its_type(saved):
    change(saved, lambda header, _: header.update(version="1"))
    assert "must have format version 1, got '1'" in refusal_of_undamaged(saved)


def change(path, act) -> None:
    """Rewrite the checkpoint, with correct checksums, after ``act(header, arrays)``."""
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(arrays["header"].tobytes())
    act(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)


METER = {"loss": 1.0, "nll": 1.0, "tokens": 1, "updates": 1, "gradient_norm": 1.0, "seconds": 1.0}
PROGRESS = {"fingerprint": "", "next_micro_batch": 0, "interval": METER, "epoch_so_far": METER, "seconds": 1.0}
WRONG = {
    "negative update": lambda header, _: header.update(update=-1),
    "update with a fraction": lambda header, _: header.update(update=7.5),
    "true for a count": lambda header, _: header.update(step_count=True),
    "no progress": lambda header, _: header.update(progress=None),
    "progress with a part missing": lambda header, _: header.update(progress={"seconds": 1.0}),
    "seconds as text": lambda header, _: header.update(progress=PROGRESS | {"seconds": "1"}),
    "unknown mean": lambda header, _: header.update(progress=PROGRESS | {"interval": {"bleu": 1}}),
    "mean that is nan": lambda header, _: header.update(progress=PROGRESS | {"interval": METER | {"loss": np.nan}}),
    "negative tokens": lambda header, _: header.update(progress=PROGRESS | {"epoch_so_far": METER | {"tokens": -1}}),
    "offset with a fraction": lambda header, _: header["table"][0].__setitem__(2, 0.0),
    "shape with a fraction": lambda header, _: header["table"][0].__setitem__(1, [20.0, 16]),
    "parameters that overlap": lambda header, _: header["table"][1].__setitem__(2, header["table"][0][2]),
    "a parameter twice": lambda header, _: header["table"].insert(0, header["table"][0][:1] + [[0], 0]),
    "parameters beyond the end": lambda header, _: header["table"][0].__setitem__(2, 10**9),
    "far too many parameters": lambda header, _: header.update(table=[[f"p{n}", [0], 0] for n in range(50_001)]),
    "half of Adam": lambda _, arrays: arrays.pop("adam_v"),
    "an unknown entry": lambda _, arrays: arrays.update(junk=np.zeros(3)),
    "a step count that no float holds": lambda header, _: header.update(step_count=10**400),
}


def test_a_header_as_the_trainer_writes_it_is_taken(saved):
    change(saved, lambda header, _: header.update(progress=PROGRESS))
    assert load_checkpoint(saved).progress == PROGRESS


@pytest.mark.parametrize("wrong", WRONG)
def test_values_that_no_training_writes_are_refused(saved, wrong):
    change(saved, WRONG[wrong])
    with pytest.raises(DamagedCheckpointError, match="must be a whole checkpoint, got a damaged or foreign file"):
        load_checkpoint(saved)


def peak_memory(act) -> int:
    """The bytes of Python and NumPy that were allocated at once while ``act`` ran."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def stored_as(data: bytes, shape: tuple[int, ...]) -> bytes:
    """A file of NumPy's format whose header states ``shape`` and whose data are these bytes."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + data


@pytest.mark.parametrize("bomb", ["a compressed entry", "a compressed vector", "an array header", "an entry twice"])
def test_a_small_file_that_states_a_large_array_is_refused_in_small_memory(saved, bomb):
    """What an entry states is compared with the file before memory is taken for it."""
    with zipfile.ZipFile(saved) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    large = stored_as(bytes(100_000_000), (25_000_000,))
    with zipfile.ZipFile(saved, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice
        for name, content in entries.items():
            if bomb == "an array header" and name == "parameters.npy":
                content = stored_as(b"", (25_000_000,))
            if bomb == "a compressed vector" and name == "parameters.npy":
                archive.writestr(name, large, zipfile.ZIP_DEFLATED)
            else:
                archive.writestr(name, content)
        if bomb == "a compressed entry":
            archive.writestr("junk.npy", large, zipfile.ZIP_DEFLATED)
        if bomb == "an entry twice":
            archive.writestr("parameters.npy", entries["parameters.npy"])
    del large

    def load():
        with pytest.raises(DamagedCheckpointError):
            load_checkpoint(saved)

    assert peak_memory(load) < 5_000_000


def test_a_config_of_an_absurd_size_is_refused_before_a_model_is_built(saved):
    change(saved, lambda header, _: header["config"]["model"].update(d_model=1_000_000, d_ff=10**9, n_layers=40))

    def load():
        with pytest.raises(CheckpointError, match=r"parameter embedding must have the model's shape \(20, 1000000\)"):
            load_model(saved)

    assert peak_memory(load) < 30_000_000


def test_a_config_whose_sizes_cannot_be_counted_is_refused(saved):
    change(saved, lambda header, _: header["config"]["model"].update(d_model=2**30, d_ff=2**31 - 1))
    with pytest.raises(ConfigError, match=r"a parameter must have at most 2\^60 values, got the shape"):
        load_model(saved)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_a_checkpoint_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    assert refusal_of_undamaged(tmp_path / "pipe.npz").endswith("got a device or pipe")


def test_an_unknown_config_key_means_another_version_not_damage(saved):
    change(saved, lambda header, _: header["config"]["model"].update(n_experts=8))
    message = refusal_of_undamaged(saved)
    assert "must be used with the version or program that wrote it" in message and "unknown key 'n_experts'" in message


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_a_file_that_the_system_cannot_read_is_not_called_damaged(saved, monkeypatch, number):
    monkeypatch.setattr(np, "load", Mock(side_effect=OSError(number, os.strerror(number))))
    assert refusal_of_undamaged(saved).endswith(f"one.npz cannot be read: {os.strerror(number)}")


def test_a_damaged_offset_is_not_reported_as_an_invalid_argument(saved):
    damaged = bytearray(saved.read_bytes())
    damaged[-3] ^= 1 << 7  # top byte of where the zip's directory begins
    saved.write_bytes(damaged)
    with pytest.raises(DamagedCheckpointError):
        load_checkpoint(saved)


def test_too_little_memory_for_a_whole_checkpoint_is_not_called_damage(saved, monkeypatch):
    monkeypatch.setattr(np, "load", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        load_checkpoint(saved)
    saved.write_bytes(saved.read_bytes()[:-100])  # the memory may have been wanted only because of the damage
    with pytest.raises(DamagedCheckpointError):
        load_checkpoint(saved)
