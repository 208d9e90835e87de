"""Sinusoids and learned positions  [sec. 3.5]."""

import math

import numpy as np
import pytest
from small_models import small_model

from minitransformer.nn.positions import sinusoids


@pytest.mark.parametrize(("d_model", "options"), [(6, {}), (7, {}), (512, {}), (16, {"base": 50.0})])
def test_sinusoids_are_those_of_the_formula(d_model, options):
    table, base = sinusoids(3, 9, d_model, **options), options.get("base", 10000)
    for row, position in zip(table, range(3, 9), strict=True):
        for column, value in enumerate(row):
            angle = position / base ** ((column - column % 2) / d_model)
            assert value == pytest.approx(math.cos(angle) if column % 2 else math.sin(angle), abs=1e-13)


def test_a_shift_of_positions_is_a_rotation_by_the_distance_alone():
    """PE(pos + k) is a linear function of PE(pos): the reason the paper gives for its sinusoids."""
    d_model, distance = 16, 5
    table = sinusoids(0, 40, d_model)
    shift = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = distance / 10000 ** (i / d_model)
        shift[i : i + 2, i : i + 2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    np.testing.assert_allclose(table[:-distance] @ shift, table[distance:], atol=1e-12)


def test_the_base_of_the_sinusoids_may_be_changed_before_the_first_call(rng):
    embedding = small_model(rng).src_embedding
    embedding.base = 50.0
    np.testing.assert_array_equal(embedding.positions(3, 9).data, sinusoids(3, 9, embedding.d_model, base=50.0))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_decoding_starts_at_the_position_it_is_told(positions, rng):
    model, ids = small_model(rng, positions=positions), np.array([[5, 6, 7, 8]])
    whole = model.tgt_embedding(ids).data
    np.testing.assert_array_equal(model.tgt_embedding(ids[:, 2:], start=2).data, whole[:, 2:])
