"""safetensors files: the library's own reader and writer, and files that no writer made."""

import json

import numpy as np
import pytest
from extras import need

from minitransformer.errors import DataError
from minitransformer.interop.safetensors import read_safetensors, write_safetensors

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b.c": np.array(2.5),
    "ids": np.array([[1, -2]], dtype=np.int64),
    "none": np.zeros((0, 4), dtype=np.float32),
}


def test_a_file_of_ours_is_read_by_the_library_and_one_of_the_library_by_us(tmp_path):
    library = need("safetensors.numpy")
    write_safetensors(tmp_path / "ours", ARRAYS)
    library.save_file(ARRAYS, tmp_path / "theirs", metadata={"format": "np"})
    for found in (
        library.load_file(tmp_path / "ours"),
        *map(read_safetensors, (tmp_path / "ours", tmp_path / "theirs")),
    ):
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_half_precision_becomes_float32(tmp_path):
    values = np.array([1.0, -0.5, 3.140625, 1e-3], dtype=np.float32)
    as_bfloat16 = (values.view(np.uint32) >> 16).astype(np.uint16)
    header = {
        "half": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]},
        "brain": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]},
    }
    write_raw(tmp_path / "file", header, values.astype(np.float16).tobytes() + as_bfloat16.tobytes())
    found = read_safetensors(tmp_path / "file")
    np.testing.assert_array_equal(found["half"], values.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(found["brain"].ravel(), values, rtol=2**-7)
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}


def write_raw(path, header, data: bytes = b"", length: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def entry(**changes) -> dict:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}


LATER = entry(shape=[1], data_offsets=[4, 8])
"""An array that leaves the bytes before it to another, perhaps of the same name: JSON's reader keeps the last."""


@pytest.mark.parametrize(
    "header, size",
    [
        (entry(), 7),
        (entry(data_offsets=[0, 4]), 8),
        (entry(data_offsets=[0, 10**4000]), 8),
        (entry(data_offsets=[-8, 0]), 8),
        (entry(data_offsets=[8, 0], shape=[-2]), 8),
        (entry(shape=[1 << 62, 1 << 62]), 8),
        (entry(shape=[2.0]), 8),
        (entry(shape="2"), 8),
        (entry(dtype="F8" * 1000), 8),
        (entry(data_offsets=None), 8),
        ({"x": None}, 8),
        ({"x": {}}, 8),
        (entry() | {"y": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, 8),
        (entry(shape=[2] + [1] * 40), 8),
        (entry(), 12),
        (b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, ' + json.dumps(LATER).encode()[1:], 8),
        (b"[1]", 8),
        (b"{", 8),
        (b"\xff\xfe", 8),
        (b"[" * 100_000, 8),
    ],
)
def test_a_file_that_is_not_as_its_header_says_is_refused(tmp_path, header, size):
    write_raw(tmp_path / "file", header, bytes(size))
    with pytest.raises(DataError, match=r"file: must be a safetensors file") as caught:
        read_safetensors(tmp_path / "file")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize("length", [0, 9, 1 << 40, (1 << 64) - 1])
def test_a_header_longer_than_the_file_is_refused_before_memory_is_taken(tmp_path, length):
    write_raw(tmp_path / "file", b"{}", length=length)
    with pytest.raises(DataError, match="damaged or foreign"):
        read_safetensors(tmp_path / "file")


def test_no_cut_or_changed_file_does_anything_else(tmp_path, rng):
    path = tmp_path / "file"
    write_safetensors(path, ARRAYS)
    whole = path.read_bytes()
    for number in range(2000):
        data = bytearray(whole[: rng.integers(0, len(whole) + 1)] if number % 2 else whole)
        for _ in range(number % 4 * bool(data)):
            data[rng.integers(0, len(data))] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            read_safetensors(path)
        except DataError as error:
            assert "\n" not in str(error)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        read_safetensors(tmp_path / "none")
