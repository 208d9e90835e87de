"""Exports into a folder: whole, or nothing is changed."""

from pathlib import Path

import pytest
from foreign_models import checkpoint_with

from minitransformer.checkpoints import Checkpoint, load_checkpoint
from minitransformer.cli.main import main
from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError, DataError
from minitransformer.interop.huggingface import write_folder
from minitransformer.models import build_model


def checkpoint_of(seed: int) -> Checkpoint:
    section = ModelConfig(vocab_size=30, n_layers=1, d_model=16, n_heads=2, d_ff=24)
    return checkpoint_with(build_model(section, seed=seed))


@pytest.mark.parametrize("is_there", [False, True])
def test_an_export_that_is_interrupted_leaves_no_folder_and_changes_none(tmp_path, monkeypatch, is_there):
    first, second = map(checkpoint_of, (1, 2))
    out = tmp_path / "out"
    if is_there:
        write_folder(first, out)
        (out / "vocab.json").write_text("{}", encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("minitransformer.interop.huggingface.write_text", interrupt)
        write_folder(second, out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert out.exists() == is_there
    write_folder(second, out)
    write_folder(second, tmp_path / "other")
    for name in ("model.safetensors", "config.json"):
        assert (out / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert (out / "vocab.json").exists() == is_there


def test_an_export_into_the_current_folder_is_that_of_any_other(tmp_path, monkeypatch):
    checkpoint_of(1).save(tmp_path / "model.npz")
    write_folder(load_checkpoint(tmp_path / "model.npz"), tmp_path / "other")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["export", "../model.npz", "--to", "marian", "-o", "."]) == 0
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "other").iterdir()
    }


def test_an_export_to_a_path_that_is_a_file_is_refused_with_its_name(tmp_path):
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match=r"export: \S*/out cannot be written"):
        write_folder(checkpoint_of(1), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_an_export_that_cannot_replace_one_file_replaces_none(tmp_path, name):
    other = {"config.json": "model.safetensors"}.get(name, "config.json")
    (tmp_path / name).mkdir()
    (tmp_path / other).write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"output must be an ordinary file, got the folder .*{name}"):
        write_folder(checkpoint_of(1), tmp_path)
    assert (tmp_path / other).read_text(encoding="utf-8") == "mine"
