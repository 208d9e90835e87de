"""The folder of a run: which checkpoint it resumes from, which are kept, and that one run uses it at a time."""

import errno
import os
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from systems import needs
from tiny_run import at_update, checkpoint_of, final_state, tiny_config, tiny_corpus, tiny_trainer

import minitransformer
from minitransformer.checkpoints import RunFolder, checkpoint, load_checkpoint, newest_checkpoints, run_folder
from minitransformer.checkpoints.same_run import MAY_CHANGE
from minitransformer.config import DataConfig, TrainingConfig
from minitransformer.errors import CheckpointError, ConfigError, TrainingError
from minitransformer.training import Trainer
from minitransformer.training.compatibility import code_hash

OTHER_SETTINGS = {
    "training.seed": {"seed": 2},
    "training.micro_batches": {"micro_batches": 3},
    "training.beta2": {"beta2": 0.9},
    "training.warmup_steps": {"warmup_steps": 21},
    "data.tgt_tokens": {"data": {"tgt_tokens": 65}},
    "model.p_drop": {"model": {"p_drop": 0.2}},
    "model.d_ff": {"model": {"d_ff": 48}},
}


def test_a_changed_setting_that_changes_the_weights_is_refused_by_name(tmp_path):
    tiny_trainer(tmp_path, updates=4).run()
    for key, changes in OTHER_SETTINGS.items():
        with pytest.raises(CheckpointError, match=rf"train: {key} must be .* got .*choose another"):
            tiny_trainer(tmp_path, updates=8, **changes)
    assert tiny_trainer(tmp_path, updates=8, log_every=3, save_every=2, keep_checkpoints=3).run().update == 8


def test_what_may_change_from_one_part_of_a_run_to_the_next_changes_no_parameter(tmp_path, relative_error):
    """Of [data] paths alone may; of [training] each setting but paths and the end has another value here."""
    assert MAY_CHANGE["data"] == {each.name for each in fields(DataConfig) if each.type is str}
    paths_and_end = {"directory", "init_from", "updates", "validate_bleu"}  # of ids there is no BLEU
    others = {
        each.name: not each.default if each.type is bool else each.default + 1
        for each in fields(TrainingConfig)
        if each.name in MAY_CHANGE["training"] - paths_and_end
    }
    runs = [
        tiny_trainer(tmp_path / str(number), updates=4, model={"dtype": "float64"}, **changes)
        for number, changes in enumerate([{}, others])
    ]
    one, other = (run.run() and run.model.parameters.data for run in runs)
    assert relative_error(other, one) < 1e-9


def test_other_data_is_refused(tmp_path):
    tiny_trainer(tmp_path, updates=4).run()
    with pytest.raises(CheckpointError, match="training data must be the one of"):
        tiny_trainer(tmp_path, tiny_corpus(seed=1), updates=8)


def test_a_folder_that_must_not_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    tiny_trainer(tmp_path, updates=4).run()
    checkpoints = tmp_path / "checkpoints"
    checkpoints.chmod(0o555)
    if os.access(checkpoints, os.W_OK):  # root may write everything
        monkeypatch.setattr(os, "access", lambda path, mode: path != checkpoints)
    with pytest.raises(ConfigError, match="must be a folder that can be written, got .*: Permission"):
        tiny_trainer(tmp_path, updates=8)
    checkpoints.chmod(0o755)


@needs("file locks")
def test_two_runs_do_not_share_a_directory(tmp_path):
    first = tiny_trainer(tmp_path, updates=2)
    with pytest.raises(TrainingError, match="another run at work"):
        tiny_trainer(tmp_path, updates=2)
    first.run()
    assert tiny_trainer(tmp_path, updates=3).run().update == 3


def test_what_a_signal_left_between_two_checkpoints_is_the_last_to_be_averaged_and_the_first_to_go(tmp_path):
    def updates(paths):
        return [int(path.stem.removeprefix("update_")) for path in paths]

    def stop(trainer, result):  # as a signal does
        trainer.should_stop = trainer.update == 6

    for name, keep in (("one", 1), ("all", 0), ("five", 5)):
        config = tiny_config(tmp_path / name, updates=14, keep_checkpoints=keep)
        Trainer(config, tiny_corpus(), progress=False, on_update=stop).run()
        assert updates(RunFolder(tmp_path / name).paths()) == [4, 6][-keep:]  # the last one stays, else work is lost
        Trainer(config, tiny_corpus(), progress=False).run()
    regular = [4, 8, 10, 12, 14]  # 10: before a validation
    assert updates(newest_checkpoints(tmp_path / "all", 5)) == updates(RunFolder(tmp_path / "five").paths()) == regular
    assert updates(newest_checkpoints(tmp_path / "all", 3)) == [10, 12, 14]
    assert updates(newest_checkpoints(tmp_path / "all", 6)) == [4, 6, 8, 10, 12, 14]


def test_fewer_checkpoints_make_room_on_a_full_disk(tmp_path, monkeypatch):
    """The disk holds seven: eight lie there when the limit is lowered to five."""
    tiny_trainer(tmp_path, updates=32).run()
    write = checkpoint.write_atomically

    def write_if_there_is_room(path, fill):
        if len(os.listdir(tmp_path / "checkpoints")) >= 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, fill)

    monkeypatch.setattr(checkpoint, "write_atomically", write_if_there_is_room)
    message = r"update_00000036.npz cannot be written: No space left on device; make room on its disk"
    with pytest.raises(CheckpointError, match=message):
        tiny_trainer(tmp_path, updates=40).run()
    assert tiny_trainer(tmp_path, updates=40, keep_checkpoints=5).run().update == 40
    assert len(os.listdir(tmp_path / "checkpoints")) == 5


@needs("file locks")
@pytest.mark.parametrize("at", [3, 6, 8])  # nothing is written after it, a line of metrics, a checkpoint
def test_a_run_whose_folder_is_deleted_ends_and_does_not_make_it_again(tmp_path, monkeypatch, at):
    folder = tmp_path / "run"
    run = tiny_trainer(folder, updates=12, log_every=6)
    at_update(monkeypatch, at, lambda model: shutil.rmtree(folder))
    with pytest.raises(TrainingError, match="must stay in place during a run"):
        run.run()
    assert not folder.exists()


@needs("/proc")
def test_a_checkpoint_is_on_the_disk_after_the_lines_before_it(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(Path(os.readlink(f"/proc/self/fd/{number}")).name))
    tiny_trainer(tmp_path, updates=2, validate_every=0).run()
    assert synced[0] == "metrics.jsonl" and synced[1].startswith(".update_00000002.npz.")


WRONG_PROGRESS = {
    "a part missing": lambda progress: progress.pop("interval"),
    "seconds as text": lambda progress: progress.update(seconds="1"),
    "unknown mean": lambda progress: progress.update(interval={"bleu": 1}),
    "mean that is nan": lambda progress: progress["interval"].update(loss=np.nan),
    "negative tokens": lambda progress: progress["interval"].update(tokens=-1),
    "no loss scale": lambda progress: progress.update(loss_scale=[]),
}


def test_a_run_does_not_resume_from_sums_that_training_never_writes(tmp_path):
    tiny_trainer(tmp_path, updates=4).run()
    path = checkpoint_of(tmp_path, 4)
    for change in WRONG_PROGRESS.values():
        stored, whole = load_checkpoint(path), path.read_bytes()
        change(stored.progress)
        stored.save(path)
        with pytest.raises(CheckpointError, match=r"the progress in .* must be as training wrote it, got other values"):
            tiny_trainer(tmp_path, updates=8)
        path.write_bytes(whole)


WRONG_VALUES = [
    ("adam_m", np.inf, "NaN or infinity"),
    ("adam_v", np.nan, "NaN, infinity or negative numbers"),
    ("adam_v", -1e-9, "NaN, infinity or negative numbers"),
]


def test_a_run_does_not_resume_from_values_that_training_never_has(tmp_path):
    tiny_trainer(tmp_path, updates=8).run()
    newest = checkpoint_of(tmp_path, 8)
    for vector, value, got in WRONG_VALUES:
        state, whole = load_checkpoint(newest), newest.read_bytes()
        getattr(state, vector)[3] = value
        state.save(newest)
        wanted = rf"{vector} of .*00008.npz must be finite to resume, got {got}; delete it"
        with pytest.raises(CheckpointError, match=wanted):
            tiny_trainer(tmp_path, updates=12)
        newest.write_bytes(whole)
    newest.unlink()  # as the message says
    assert tiny_trainer(tmp_path, updates=12).run().update == 12


def test_a_damaged_newest_checkpoint_is_skipped_by_name_and_later_replaced(tmp_path, capsys):
    tiny_trainer(tmp_path, updates=12).run()
    state = final_state(tmp_path, 12)
    newest = checkpoint_of(tmp_path, 12)
    newest.write_bytes(newest.read_bytes()[:1000])
    assert tiny_trainer(tmp_path, updates=11, keep_checkpoints=1).run().update == 11
    assert load_checkpoint(checkpoint_of(tmp_path, 11)).update == 11
    assert tiny_trainer(tmp_path, updates=12, keep_checkpoints=1).run().update == 12
    assert "skipped: checkpoint: " + str(newest) in capsys.readouterr().err
    for before, after in zip(state, final_state(tmp_path, 12), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("error", [CheckpointError("cannot be read: Permission denied"), MemoryError()], ids=repr)
def test_a_newest_checkpoint_that_may_be_whole_is_not_skipped(tmp_path, monkeypatch, error):
    tiny_trainer(tmp_path, updates=8).run()
    whole = load_checkpoint

    def load(path):
        if path.name == "update_00000008.npz":
            raise error
        return whole(path)

    monkeypatch.setattr(run_folder, "load_checkpoint", load)
    with pytest.raises(type(error)) as caught:
        tiny_trainer(tmp_path, updates=12)
    assert caught.value is error


def test_a_run_does_not_resume_from_a_renamed_checkpoint(tmp_path):
    tiny_trainer(tmp_path, updates=4).run()
    old = checkpoint_of(tmp_path, 4)
    old.rename(old.with_name("update_00000040.npz"))
    with pytest.raises(CheckpointError, match=r"00000040\.npz must hold the update of its name, got 4"):
        tiny_trainer(tmp_path, updates=50)


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_afresh(tmp_path):
    tiny_trainer(tmp_path, updates=4).run()
    for path in (tmp_path / "checkpoints").iterdir():
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="1 damaged; delete them to start from scratch"):
        tiny_trainer(tmp_path, updates=4)


@pytest.mark.parametrize("name", ["tape.py", "norm.cu", "common.cuh"])
def test_ranks_compare_every_file_that_computes(tmp_path, monkeypatch, name):
    monkeypatch.setattr(minitransformer, "__file__", str(tmp_path / "__init__.py"))
    before = code_hash()
    (tmp_path / name).write_text("x = 1")
    assert code_hash() != before
