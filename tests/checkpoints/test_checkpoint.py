"""Checkpoints: whole or not at all, refused when damaged, loaded by name; and the mean of several."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from small_models import small_config
from tiny_run import checkpoint_of, entries_read, tiny_config, tiny_corpus, tiny_trainer

from minitransformer.checkpoints import (
    average_checkpoints,
    load_checkpoint,
    load_model,
    newest_checkpoints,
    save_checkpoint,
)
from minitransformer.checkpoints.header import slices, table_from
from minitransformer.config import ExecutionConfig
from minitransformer.errors import AutogradError, CheckpointError
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import Tokenizer


@pytest.fixture
def state(rng):
    """A config, and a model and an optimizer with random numbers in them."""
    config = tiny_config("unused")
    model = Transformer(config.model, seed=5)
    optimizer = Adam(model.parameters)
    optimizer.m[...], optimizer.v[...] = rng.normal(size=(2, len(optimizer.m)))
    optimizer.step_count = 5  # two of seven updates were skipped
    return config, model, optimizer


@pytest.fixture
def saved(state, tmp_path):
    """The path of a checkpoint of ``state``."""
    config, model, optimizer = state
    save_checkpoint(tmp_path / "one.npz", model, optimizer, update=7, config=config)
    return tmp_path / "one.npz"


def test_a_checkpoint_restores_everything_as_it_was_saved(state, saved):
    config, model, optimizer = state
    loaded = load_checkpoint(saved)
    assert (loaded.update, loaded.config, loaded.step_count, loaded.tokenizer_text) == (7, config, 5, "")
    other = Transformer(config.model, seed=6)
    other_optimizer = Adam(other.parameters)
    loaded.restore(other, other_optimizer)
    assert other_optimizer.step_count == 5
    ours = model.parameters.data, optimizer.m, optimizer.v
    theirs = other.parameters.data, other_optimizer.m, other_optimizer.v
    for name, where in slices(model.parameters.table).items():
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one[where], two[where], err_msg=name)


def test_a_checkpoint_needs_no_pickle_and_only_numpy(state, saved):
    with np.load(saved, allow_pickle=False) as stored:
        header = json.loads(stored["header"].tobytes())
        name, shape, offset = header["table"][0]
        first = stored["parameters"][offset : offset + int(np.prod(shape))].reshape(shape)
    np.testing.assert_array_equal(first, state[1].parameters[name].data)


def test_adams_vectors_are_read_only_where_they_are_wanted(saved, monkeypatch):
    read = entries_read(monkeypatch)
    loaded = load_checkpoint(saved, with_optimizer=False)
    assert (loaded.adam_m, loaded.adam_v) == (None, None)
    load_model(saved)
    average_checkpoints([saved])
    assert sorted(read) == sorted(["header", "tokenizer", "parameters"] * 3)
    assert load_checkpoint(saved).adam_m is not None


def test_what_a_gpu_has_trained_in_half_precision_is_built_on_the_cpu(state, saved):
    execution = ExecutionConfig(device="cuda", precision="bfloat16")
    stored = load_checkpoint(saved)
    replace(stored, config=replace(stored.config, execution=execution)).save(saved)
    np.testing.assert_array_equal(load_model(saved)[0].parameters.data, state[1].parameters.data)


def test_a_table_that_does_not_fit_the_model_is_refused_by_parameter_name(state, saved):
    config = state[0]
    for changes, words in (
        ({"d_ff": 48}, r"must have the model's shape \(16, 48\), got \(16, 32\)"),
        ({"n_layers": 2}, "got none"),
        ({"n_layers": 0}, "shape none"),
    ):
        with pytest.raises(CheckpointError, match=words):
            load_checkpoint(saved).restore(Transformer(replace(config.model, **changes)))


def test_parameters_are_found_by_name_when_the_layout_has_changed(state, saved, tmp_path):
    model = state[1]
    loaded = load_checkpoint(saved)
    table, vectors, start = [], [], 0  # the other order, no gaps
    for name, shape, offset in reversed(loaded.table):
        size = int(np.prod(shape))
        table.append((name, shape, start))
        vectors.append(loaded.parameters[offset : offset + size])
        start += size
    moved = replace(loaded, table=table, parameters=np.concatenate(vectors), adam_m=None, adam_v=None)
    moved.save(tmp_path / "moved.npz")
    np.testing.assert_array_equal(load_model(tmp_path / "moved.npz")[0].parameters.data, model.parameters.data)


def test_a_model_that_was_changed_is_not_saved_with_its_old_parameters(state, saved):
    config, model, optimizer = state
    before = saved.read_bytes()
    with pytest.raises(CheckpointError, match="the optimizer must be one of model.parameters, got another's"):
        save_checkpoint(saved, model, Adam(Transformer(config.model).parameters), update=8, config=config)
    model.encoder.layers[0] = Transformer(config.model, seed=9).encoder.layers[0]
    with pytest.raises(AutogradError, match="the model must have the parameters it was built with, got 11 new ones"):
        save_checkpoint(saved, model, optimizer, update=8, config=config)
    assert saved.read_bytes() == before


def test_a_failed_write_leaves_the_old_file_whole_and_nothing_else(state, saved, monkeypatch):
    config, model, optimizer = state
    before = saved.read_bytes()

    def disk_full(file, array, **options):
        file.write(b"half of an array")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", disk_full)
    with pytest.raises(CheckpointError, match=r"one\.npz cannot be written: No space left"):
        save_checkpoint(saved, model, optimizer, update=8, config=config)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["one.npz"]


def test_unfinished_files_of_a_killed_run_are_removed_and_no_others(tmp_path):
    tiny_trainer(tmp_path, updates=4).run()
    names = ("checkpoints/.update_00000008.npz.0123456789abcdef.partial", ".metrics.jsonl.0123456789abcdef.partial")
    of_others = ("checkpoints/mean.npz.partial", "notes.txt.partial", "update_00000008.npz.partial")
    for name in names + of_others:
        (tmp_path / name).write_bytes(b"PK")
    assert newest_checkpoints(tmp_path, 1)[0].name == "update_00000004.npz"
    assert tiny_trainer(tmp_path, updates=4).update == 4
    assert not any((tmp_path / name).exists() for name in names)
    assert all((tmp_path / name).exists() for name in of_others)


def test_the_average_is_the_mean_of_the_parameters_and_makes_a_model(state, tmp_path, rng):
    config, model, optimizer = state
    paths, vectors = [], []
    for i in range(3):
        model.parameters.data[...] = rng.normal(size=len(model.parameters.data))
        vectors.append(model.parameters.data.astype(np.float64))
        paths.append(tmp_path / f"{i}.npz")
        save_checkpoint(paths[-1], model, optimizer, update=i, config=config)
    average_checkpoints(paths).save(tmp_path / "mean.npz")
    assert load_checkpoint(tmp_path / "mean.npz").update == 2  # that of the last
    mean, tokenizer = load_model(tmp_path / "mean.npz")
    expected = np.mean(vectors, axis=0).astype(np.float32)
    for name, where in slices(mean.parameters.table).items():
        np.testing.assert_array_equal(mean.parameters[name].data.reshape(-1), expected[where])
    assert tokenizer is None
    with pytest.raises(CheckpointError, match="must hold Adam's state"):
        load_checkpoint(tmp_path / "mean.npz").restore(model, optimizer)


def test_checkpoints_of_different_runs_are_not_averaged(saved):
    stored, path = load_checkpoint(saved), saved.with_name("other.npz")
    training = stored.config.training
    for key, value, same in (("micro_batches", 7, False), ("seed", 99, False), ("updates", 9, True)):
        replace(stored, config=replace(stored.config, training=replace(training, **{key: value}))).save(path)
        if same:
            np.testing.assert_array_equal(average_checkpoints([saved, path]).parameters, stored.parameters)
            continue
        with pytest.raises(CheckpointError, match=f"other.npz must have the training.{key} of .*one.npz"):
            average_checkpoints([saved, path])
    replace(stored, tokenizer_text="of as many tokens").save(path)
    with pytest.raises(CheckpointError, match="other.npz must have the tokenizer of .*one.npz"):
        average_checkpoints([saved, path])
    with pytest.raises(CheckpointError, match="at least one, got none"):
        average_checkpoints([])


def test_checkpoints_of_the_same_settings_and_other_data_are_not_averaged(tmp_path):
    for seed in (0, 1):
        tiny_trainer(tmp_path / str(seed), tiny_corpus(seed), updates=4).run()
    paths = [checkpoint_of(tmp_path / seed, 4) for seed in "01"]
    with pytest.raises(CheckpointError, match="must have the training data of"):
        average_checkpoints(paths)
    average_checkpoints(paths[1:]).save(tmp_path / "mean.npz")
    average_checkpoints([tmp_path / "mean.npz", paths[1]])  # a mean does not know its data


def test_a_checkpoint_has_its_tokenizer_and_another_vocabulary_is_refused(state, tmp_path):
    config, model, optimizer = state
    tokenizer = Tokenizer.train(["a b c", "a b c"], 30, mode="words")
    fitting = replace(config, model=replace(config.model, vocab_size=tokenizer.vocab_size))
    model = Transformer(fitting.model)
    text = tokenizer.dumps()
    save_checkpoint(tmp_path / "a.npz", model, Adam(model.parameters), update=1, config=fitting, tokenizer_text=text)
    assert load_model(tmp_path / "a.npz")[1].dumps() == text
    save_checkpoint(tmp_path / "b.npz", state[1], optimizer, update=1, config=config, tokenizer_text=text)
    with pytest.raises(CheckpointError, match=f"must have the model's vocab_size, 20, got {tokenizer.vocab_size}"):
        load_model(tmp_path / "b.npz")


def test_attention_of_an_older_file_is_found_under_its_new_names():
    """``w_q`` and ``b_q``, once beside each other, are ``w_q.weight`` and ``w_q.bias``."""
    parameters = Transformer(small_config(attention_bias=True)).parameters
    older = {name: re.sub(r"\.w_(\w+)\.bias$", r".b_\1", name).removesuffix(".weight") for name in parameters.names}
    assert sum(name != old for name, old in older.items()) == 2 * 3 * 2 * 3  # two layers, three attentions of three
    entries = [[older[name], shape, offset] for name, shape, offset in parameters.table]
    assert table_from(entries, len(parameters.data)) == parameters.table
