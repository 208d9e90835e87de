"""Copies and pictures of a model: a copy shares nothing and loses nothing, the tree counts every parameter once."""

import copy
import math
import pickle
import re

import numpy as np
import pytest
from small_models import gradient, losses, random_batch, small_model, train

from minitransformer.nn import ParameterVector
from minitransformer.nn.layers import LayerNorm

COPIES = {"deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_trains_as_its_original_and_by_itself(rng, how):
    model, batch = small_model(rng, tie_embeddings=False, positions="learned"), random_batch(rng)
    before, model.parameters.grad[:] = model.parameters.data.copy(), 3.0
    other = COPIES[how](model)
    assert other.parameters.table == model.parameters.table and not other.parameters.grad.any()
    np.testing.assert_array_equal(other.parameters.data, before)
    assert losses(train(other, [batch], 3)) == losses(train(copy.deepcopy(model), [batch], 3))
    np.testing.assert_array_equal(model.parameters.data, before)
    assert (model.parameters.grad == 3.0).all()
    model.parameters.check_model()
    other.parameters.check_model()


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_keeps_shared_parameters_shared_and_layers_that_were_replaced(rng, how):
    model, batch = small_model(rng), random_batch(rng)
    model.encoder.final_norm = LayerNorm(model.config.d_model)
    model.parameters = ParameterVector(model, "float64", np)
    model.prepare_for_inference()
    other = COPIES[how](model)
    assert other.projection is other.embedding is other.src_embedding.table
    np.testing.assert_array_equal(gradient(other, batch), gradient(model, batch))
    other.parameters.data += 1.0  # what is read-only in the original can be changed in the copy
    assert other.embedding.data[0, 0] == model.embedding.data[0, 0] + 1.0


def test_a_prepared_model_cannot_be_made_writable_while_kernels_hold_copies_of_its_parameters(rng):
    model, batch = small_model(rng), random_batch(rng)
    model.prepare_for_inference()
    before = model.decode_step([1] * len(batch.src), model.start(batch.src, 1))
    for array in (model.parameters.data, model.embedding.data):
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag to True"):
            array.flags.writeable = True
    other = copy.deepcopy(model)
    other.parameters.data *= 0.5
    after = other.decode_step([1] * len(batch.src), other.start(batch.src, 1))
    np.testing.assert_allclose(after, other(batch.src, [[1]] * len(batch.src)).data[:, 0], rtol=1e-9)
    assert not np.allclose(after, before)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_freezes_what_its_original_froze(rng, how):
    model = small_model(rng)
    model.parameters.freeze(["encoder"])
    other = COPIES[how](model)
    model.parameters.freeze(["decoder"])
    other.parameters.grad.fill(1.0)
    other.parameters.zero_frozen()
    frozen = {name for name in other.parameters.names if not other.parameters[name].grad.any()}
    assert frozen == {name for name in other.parameters.names if name.startswith("encoder.")}


@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": False, "norm": "pre"}, {"kind": "language_model"}], ids=str)
def test_the_tree_of_a_model_has_every_parameter_once(rng, changes):
    model = small_model(rng, **changes)
    text = repr(model)
    assert text.startswith(f"{type(model).__name__}, {model.parameters.count:,} parameters\n  embedding")
    total, times = 0, [1]  # how often each of the modules that contain a line occurs
    for line in text.split("\n")[1:]:
        depth, (names, rest) = (len(line) - len(line.lstrip())) // 2, line.split(": ")
        times[depth:] = [times[depth - 1] * len(names.split(", "))]
        if shape := re.fullmatch(r"\(([\d, ]+?),?\)", rest):
            total += times[depth] * math.prod(map(int, shape[1].split(", ")))
    assert total == model.parameters.count and "    0, 1: " in text


def test_a_module_that_refers_to_its_model_ends_the_tree(rng):
    model = small_model(rng)
    model.encoder.model = model
    assert repr(model).count("Transformer, ") == 2 and "model: Transformer, shared" in repr(model)
