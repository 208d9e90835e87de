"""Weights of other projects in which a parameter stands twice: none of the two is taken silently."""

import zipfile

import numpy as np
import pytest
from foreign_models import checkpoint_with

from minitransformer.config import ModelConfig
from minitransformer.errors import DataError
from minitransformer.interop.marian import read_arrays
from minitransformer.interop.pytorch import read_state_dict, write_state_dict
from minitransformer.interop.safetensors import read_safetensors, write_safetensors
from minitransformer.models import build_model


def test_of_two_tensors_for_one_parameter_none_is_taken_unless_they_are_equal(tmp_path):
    section = ModelConfig(vocab_size=9, n_layers=1, d_model=8, n_heads=2, d_ff=8)
    model, path = build_model(section, seed=2), tmp_path / "model.safetensors"
    write_state_dict(checkpoint_with(model), path)
    arrays = read_safetensors(path)
    for second in ("transformer.embedding.weight", "src_embedding.weight"):
        write_safetensors(path, arrays | {second: arrays["embedding.weight"]})
        again, _ = read_state_dict(path, n_heads=2).build()
        np.testing.assert_array_equal(again.embedding.data, model.embedding.data)
        write_safetensors(path, arrays | {second: arrays["embedding.weight"] + 1})
        with pytest.raises(DataError, match="must have one tensor for src_embedding.weight, got .* and another"):
            read_state_dict(path, n_heads=2)


def test_an_npz_with_two_arrays_of_one_name_is_refused(tmp_path):
    np.savez(tmp_path / "two.npz", weight=np.zeros(3))
    with zipfile.ZipFile(tmp_path / "two.npz", "a") as archive, archive.open("weight", "w") as entry:
        np.save(entry, np.ones(3))
    with pytest.raises(DataError, match=r"two\.npz: must have one array of each name, got two of one"):
        read_arrays(tmp_path / "two.npz")
