"""Where parameters are found, the vector they are kept in, and the parameter counts of the paper."""

import math
from collections import deque

import numpy as np
import pytest
from small_models import random_batch, small_config, small_model, train

from minitransformer.checkpoints import save_checkpoint
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.errors import AutogradError
from minitransformer.model_config import TABLE3_ROWS
from minitransformer.models import Transformer
from minitransformer.nn import Module, Parameter, ParameterVector
from minitransformer.nn.layers import FeedForward
from minitransformer.nn.randomness import Initializer
from minitransformer.optim import Adam
from minitransformer.training.step import train_step

# Table 3's last column, in millions, where the paper prints one, and the size of a vocabulary that explains it.
MILLIONS = dict(base=65, B1=58, B2=60, C1=36, C2=50, C3=80, C4=28, C5=168, C6=53, C7=90)
PUBLISHED = {row: (41_100, millions) for row, millions in MILLIONS.items()} | {"big": (36_000, 213)}


def counted(config: ModelConfig) -> int:
    """Number of parameters by the formulas of sec. 3."""
    d_model, heads = config.d_model, config.n_heads
    attention = 2 * d_model * heads * config.d_k + 2 * d_model * heads * config.d_v
    if config.attention_bias:
        attention += 2 * heads * config.d_k + heads * config.d_v + d_model
    feed_forward = 2 * d_model * config.d_ff + config.d_ff + d_model
    norm = 2 * d_model
    layers = config.n_layers * (3 * attention + 2 * feed_forward + 5 * norm)
    matrices = 1 if config.tie_embeddings else 3
    positions = 2 * config.max_positions * d_model if config.positions == "learned" else 0
    final_norms = 2 * norm if config.norm == "pre" else 0
    return matrices * config.vocab_size * d_model + layers + positions + final_norms


class Containers(Module):
    """Parameters in every kind of attribute that they are looked for in."""

    def __init__(self):
        self.one = Parameter(np.zeros(1))
        self.several = [Parameter(np.zeros(2)), (Parameter(np.zeros(3)), None)]
        self.by_name = {"a": Parameter(np.zeros(4)), "layers": [Norm(), Norm()]}
        self.pair = (Norm(), self.one)
        self.other = {"x": 3, "y": np.zeros(7)}


class Norm(Module):
    def __init__(self):
        self.gamma = Parameter(np.ones(5))


# Where they are found


def test_parameters_in_lists_tuples_and_dicts_are_found_by_their_path():
    parameters = ParameterVector(Containers(), "float64", np)
    assert parameters.names == [
        *("one", "several.0", "several.1.0", "by_name.a"),
        *("by_name.layers.0.gamma", "by_name.layers.1.gamma", "pair.0.gamma"),
    ]
    assert parameters.count == 1 + 2 + 3 + 4 + 3 * 5


@pytest.mark.parametrize("container", [{Norm()}, frozenset([Norm()]), deque([Norm()]), {"a": Norm()}.values()])
def test_parameters_where_they_would_not_be_found_are_refused(container):
    model = Containers()
    model.by_name["layers"] = container
    got = f"layers must be a list, a tuple or a dict.*, got a {type(container).__name__}"
    with pytest.raises(AutogradError, match=f"Module: by_name.{got}"):
        ParameterVector(model, "float64", np)


@pytest.mark.parametrize("clash", [{"1": Norm(), 1: Norm()}, {"a.gamma": Parameter(np.ones(2)), "a": Norm()}])
def test_two_parameters_of_the_same_name_are_refused(clash):
    model = Containers()
    model.by_name = clash
    with pytest.raises(AutogradError, match="must have its own name, got two called by_name.*gamma; rename a key"):
        ParameterVector(model, "float64", np)


def test_a_parameter_whose_array_was_replaced_is_refused(rng):
    model, batch = small_model(rng), random_batch(rng)
    values = 2 * model.embedding.data
    model.embedding.data = values
    with pytest.raises(
        AutogradError, match=r"values of embedding must stay .*; write parameter\.data\[\.\.\.\] = values"
    ):
        train(model, [batch])
    model.parameters = ParameterVector(model, model.config.dtype, model.xp)
    model.embedding.data[...] = values
    train(model, [batch])


def replaced(model):
    model.encoder.layers[1].feed_forward = FeedForward(model.config, Initializer(9))


def removed(model):
    model.encoder.layers.pop()


def added(model):
    model.adapter = Norm()


CHANGES = {
    replaced: r"4 new ones, such as encoder\.layers\.1\.feed_forward\.w1",
    removed: r"\d+ of \d+",
    added: r"1 new ones, such as adapter\.gamma",
}


@pytest.mark.parametrize(("change", "got"), CHANGES.items())
def test_a_changed_model_is_trained_only_after_its_vector_is_built_again(change, got, rng, tmp_path):
    model, batch = small_model(rng), random_batch(rng)
    adam = Adam(model.parameters)
    change(model)
    with pytest.raises(AutogradError, match=f"ParameterVector: .*, got {got}; .* ParameterVector.model, dtype, xp"):
        train(model, [batch])
    with pytest.raises(AutogradError, match="after replacing a layer"):
        Adam(model.parameters)
    with pytest.raises(AutogradError, match="after replacing a layer"):
        save_checkpoint(tmp_path / "x.npz", model, adam)
    model.parameters = ParameterVector(model, model.config.dtype, model.xp)
    before = model.parameters.data.copy()
    train(model, [batch])
    moved = [name for name, _, offset in model.parameters.table if model.parameters.data[offset] != before[offset]]
    assert ("encoder.layers.1.feed_forward.b2" in moved) == (change is not removed)


# One vector


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parameters_and_gradients_are_views_of_two_vectors(dtype):
    parameters = Transformer(small_config(dtype=dtype), seed=1).parameters
    assert parameters.data.ndim == 1 and parameters.data.shape == parameters.grad.shape
    assert {parameters.data.dtype, parameters.grad.dtype} == {np.dtype(dtype)}
    for name, shape, offset in parameters.table:
        parameter, part = parameters[name], slice(offset, offset + math.prod(shape))
        for view, vector in ((parameter.data, parameters.data), (parameter.grad, parameters.grad)):
            assert view.shape == shape and view.dtype == vector.dtype
            assert np.shares_memory(view, vector[part])
            np.testing.assert_array_equal(view.ravel(), vector[part])
        parameters.data[offset] = 7.5
        assert parameter.data.flat[0] == 7.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_parameter_starts_on_a_256_byte_boundary_and_none_overlap(dtype):
    parameters = Transformer(small_config(dtype=dtype, attention_bias=True), seed=1).parameters
    used = np.zeros(len(parameters.data), dtype=int)
    for name, shape, offset in parameters.table:
        assert parameters[name].data.ctypes.data % 256 == parameters[name].grad.ctypes.data % 256 == 0
        used[offset : offset + math.prod(shape)] += 1
    assert used.max() == 1
    assert used.sum() == parameters.count


def test_the_gaps_between_parameters_stay_zero_in_training(rng):
    model = small_model(rng)
    optimizer, config = Adam(model.parameters), TrainingConfig(warmup_steps=1, clip_norm=1.0)
    for update in range(1, 4):
        train_step(model, optimizer, [random_batch(rng)], update=update, config=config)
    gaps = np.ones(len(model.parameters.data), dtype=bool)
    for _, shape, offset in model.parameters.table:
        gaps[offset : offset + math.prod(shape)] = False
    assert gaps.any()
    for vector in (model.parameters.data, model.parameters.grad, optimizer.m, optimizer.v):
        np.testing.assert_array_equal(vector[gaps], 0.0)
        assert (vector[~gaps] != 0.0).mean() > 0.5


def test_zero_grad_clears_and_later_gradients_accumulate(rng, relative_error):
    model, batch = small_model(rng), random_batch(rng)
    model.parameters.grad[:] = 100.0
    model.parameters.zero_grad()
    np.testing.assert_array_equal(model.parameters.grad, 0.0)
    model.loss(batch)[0].backward()
    once = model.parameters.grad.copy()
    model.loss(batch)[0].backward()
    assert relative_error(model.parameters.grad, 2 * once) < 1e-14


def test_values_assigned_to_a_vector_are_those_of_the_model(rng):
    model, other, batch = small_model(rng), small_model(np.random.default_rng(5)), random_batch(rng)
    vectors = model.parameters.data, model.parameters.grad
    model.parameters.data = other.parameters.data.copy()
    assert model.loss(batch)[0].item() == other.loss(batch)[0].item()
    model.parameters.grad = np.arange(len(vectors[1]))
    assert model.embedding.grad[0, 1] == 1.0
    model.parameters.data += 1.0
    assert model.embedding.data[0, 0] == other.embedding.data[0, 0] + 1.0
    assert model.parameters.data is vectors[0] and model.parameters.grad is vectors[1]


@pytest.mark.parametrize("replace", [lambda grad: None, lambda grad: grad.clip(-0.1, 0.1)], ids=["None", "clipped"])
def test_a_gradient_that_left_the_vector_is_refused(replace, rng):
    model, batch = small_model(rng), random_batch(rng)
    model.loss(batch)[0].backward()
    model.embedding.grad = replace(model.embedding.grad)
    with pytest.raises(AutogradError, match=r"grad must stay in its vector, .* write grad\[...\] ="):
        model.loss(batch)[0].backward()


# Counts of the paper


@pytest.mark.parametrize(
    "changes",
    [{}, dict(attention_bias=True), dict(norm="pre"), dict(tie_embeddings=False), dict(positions="learned")],
    ids=str,
)
def test_the_number_of_parameters_is_that_of_the_formulas(changes):
    config = small_config(**changes)
    assert Transformer(config).parameters.count == counted(config)


@pytest.mark.parametrize("row", [*TABLE3_ROWS, "big"])
@pytest.mark.parametrize("bias", [False, True])
def test_every_row_of_table_3_has_the_number_of_parameters_of_its_formulas(row, bias):
    config = ModelConfig.table3(row, attention_bias=bias)
    assert sum(map(math.prod, Transformer.parameter_shapes(config).values())) == counted(config)


@pytest.mark.parametrize("row", PUBLISHED)
def test_the_published_parameter_counts_fit_a_vocabulary_of_that_size(row):
    vocab_size, millions = PUBLISHED[row]
    assert round(counted(ModelConfig.table3(row, vocab_size=vocab_size)) / 1e6) == millions


def test_a_layer_may_refer_to_its_model_and_to_itself():
    model = Containers()
    names = ParameterVector(model, "float64", np).names
    model.by_name["layers"][0].model, model.by_name["layers"][1].itself = model, model.by_name["layers"][1]
    model.several.append(model.several)
    assert ParameterVector(model, "float64", np).names == names
