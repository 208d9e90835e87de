"""Parameters as 8-bit integers, a quarter of the size: for a model to distribute, not for one to train further."""

import math

import numpy as np

from minitransformer.checkpoints.header import ParameterTable

LARGEST = 127
"""Integers from -127 to 127: symmetric, so that zero stays zero."""


def pack(parameters: np.ndarray, table: ParameterTable) -> tuple[np.ndarray, np.ndarray]:
    """(codes, scales): parameter = code * scale of its row, with scale = max |row| / 127.

    A row is the last axis of a parameter with two axes or more. The largest error is half a scale. In a vector each
    value is a row of its own, so that it stays as it is: there are few, and one may be far larger than the others.

    parameters: (n,) finite   codes: (n,) int8, 0 in gaps   scales: (rows,) float32, in the order of the table
    """
    codes, scales = np.zeros(len(parameters), dtype=np.int8), []
    for rows, of_codes in zip(_rows(parameters, table), _rows(codes, table), strict=True):
        scale = (np.abs(rows).max(axis=1, keepdims=True, initial=0) / LARGEST).astype(np.float32)
        of_codes[...] = np.rint(np.divide(rows, scale, out=np.zeros_like(rows), where=scale > 0))
        scales.append(scale[:, 0])
    return codes, np.concatenate([*scales, np.zeros(0, dtype=np.float32)])


def unpack(codes: np.ndarray, scales: np.ndarray, table: ParameterTable, dtype: str) -> np.ndarray:
    """The (n,) parameters; ValueError if codes and scales are not those of this table."""
    if codes.dtype != np.int8 or codes.ndim != 1 or scales.dtype != np.float32:
        raise ValueError(f"codes are {codes.dtype} {codes.shape}, scales {scales.dtype}")
    counts = [len(rows) for rows in _rows(codes, table)]
    if scales.shape != (sum(counts),):
        raise ValueError(f"scales have shape {scales.shape} for {sum(counts)} rows")
    parameters = np.zeros(len(codes), dtype=dtype)
    ends = np.cumsum([0, *counts])
    for number, (rows, of_codes) in enumerate(zip(_rows(parameters, table), _rows(codes, table), strict=True)):
        with np.errstate(all="ignore"):  # what is not finite is refused by `load_checkpoint`
            np.multiply(of_codes, scales[ends[number] : ends[number + 1], None], out=rows, casting="same_kind")
    return parameters


def _rows(vector: np.ndarray, table: ParameterTable) -> list[np.ndarray]:
    """Each parameter as a (rows, length) view of the vector."""
    views = []
    for _, shape, offset in table:
        n_rows = math.prod(shape[:-1]) if len(shape) > 1 else math.prod(shape)
        width = shape[-1] if len(shape) > 1 else 1
        views.append(vector[offset : offset + n_rows * width].reshape(n_rows, width))
    return views
