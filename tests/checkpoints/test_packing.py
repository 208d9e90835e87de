"""Parameters in 8 bits: how far they are from the trained ones, and files that are not what `pack` wrote."""

import warnings

import numpy as np
import pytest
from tiny_run import save_untrained

from minitransformer.checkpoints import load_checkpoint
from minitransformer.checkpoints.entries import read_entries, write_entries
from minitransformer.checkpoints.packing import pack, unpack
from minitransformer.errors import DamagedCheckpointError

TABLE = [("matrix", (5, 7), 2), ("vector", (6,), 40), ("heads", (2, 3, 4), 48), ("number", (), 73)]


def test_a_rounded_parameter_is_within_half_a_scale_and_zeros_stay(rng):
    parameters = np.zeros(80)
    for _, shape, offset in TABLE:
        size = int(np.prod(shape))
        parameters[offset : offset + size] = rng.normal(scale=10.0 ** rng.integers(-6, 6), size=size)
    parameters[2:9] = 0  # a whole row
    codes, scales = pack(parameters, TABLE)
    back = unpack(codes, scales, TABLE, "float64")
    rows = [7] * 5 + [1] * 6 + [4] * 6 + [1]
    half = np.repeat(scales.astype(float) / 2, rows)
    where = np.concatenate([np.arange(offset, offset + int(np.prod(shape))) for _, shape, offset in TABLE])
    assert (np.abs(back - parameters)[where] <= half * (1 + 1e-6)).all()
    assert (back[parameters == 0] == 0).all()
    np.testing.assert_allclose(back[40:46], parameters[40:46], rtol=1e-6)  # a vector stays as it is
    again, _ = pack(back, TABLE)
    np.testing.assert_array_equal(again, codes)


@pytest.fixture
def checkpoint(tmp_path):
    return load_checkpoint(save_untrained(tmp_path / "one.npz"))


def test_a_file_in_8_bits_is_a_twelfth_of_one_with_adam_and_makes_a_model(checkpoint, tmp_path):
    checkpoint.save(tmp_path / "small.npz", int8=True)
    small = load_checkpoint(tmp_path / "small.npz")
    model, _ = small.build()
    np.testing.assert_allclose(
        model.parameters.data, checkpoint.parameters, atol=np.abs(checkpoint.parameters).max() / 250
    )
    assert small.config == checkpoint.config and small.adam_m is None
    assert len(pack(checkpoint.parameters, checkpoint.table)[0].tobytes()) * 12 == sum(
        vector.nbytes for vector in (checkpoint.parameters, checkpoint.adam_m, checkpoint.adam_v)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("scales"),
        lambda arrays: arrays.pop("codes"),
        lambda arrays: arrays.update(scales=arrays["scales"][:-1]),
        lambda arrays: arrays.update(scales=arrays["scales"].astype(np.float64)),
        lambda arrays: arrays.update(codes=arrays["codes"].astype(np.int16)),
        lambda arrays: arrays.update(codes=arrays["codes"][:, None]),
        lambda arrays: arrays.update(codes=arrays["codes"][:-100]),
        lambda arrays: arrays.update(parameters=arrays["codes"].astype(np.float32)),
        lambda arrays: arrays["scales"].fill(np.inf),
        lambda arrays: arrays["scales"].fill(3e38),
    ],
)
def test_a_file_that_is_not_codes_and_scales_of_its_table_is_damaged(checkpoint, tmp_path, change):
    path = tmp_path / "small.npz"
    checkpoint.save(path, int8=True)
    arrays = read_entries(path, ())
    change(arrays)
    with open(path, "wb") as file:
        write_entries(file, arrays)
    with (
        warnings.catch_warnings(record=True, action="always") as shown,
        pytest.raises(DamagedCheckpointError, match=r"small\.npz must be a whole checkpoint"),
    ):
        load_checkpoint(path)
    assert not shown
