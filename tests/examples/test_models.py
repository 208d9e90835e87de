"""The ops of examples/paper/models against differences and PyTorch; its models by the ordinary command line."""

import re
from functools import partial

import numpy as np
import pytest
from cases import Case, as_tuple, booleans, cotangents, normal, outputs_and_gradients, padding
from systems import python
from tiny_run import tiny_text, write_config

from examples.paper.models.convolution import ConvolutionalTransformer, convolution
from examples.paper.models.restricted_attention import RestrictedTransformer, restricted_attention
from minitransformer.autograd import check_gradient
from minitransformer.checkpoints import load_model
from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.models import model_class

RUN = ("-m", "examples.paper.run")
WORDS = (2, 3, 9, 5), (2, 3, 9, 5), (2, 3, 9, 4)
CASES = [
    Case(rule, what, shapes, normal, options)
    for rule, what, shapes, options in (
        (restricted_attention, "both sides", WORDS, {"window": (2, 2)}),
        (restricted_attention, "one side", WORDS, {"window": (3, 0)}),
        (restricted_attention, "padding", WORDS, {"window": (1, 2), "mask": padding(9, 5)[:, None, None]}),
        (restricted_attention, "dropout", WORDS, {"window": (2, 1), "keep": booleans((2, 3, 9, 4)), "p_drop": 0.3}),
        (restricted_attention, "wider than the sentence", WORDS, {"window": (30, 20)}),
        (restricted_attention, "one head", ((9, 5), (9, 5), (9, 4)), {"window": (2, 1)}),
        (restricted_attention, "itself alone", WORDS, {"window": (0, 0)}),
        (convolution, "k of 3", ((2, 7, 4), (3, 4, 5), (5,)), {}),
        (convolution, "dilated, padding", ((2, 9, 4), (3, 4, 5), (5,)), {"dilation": 2, "mask": padding(9, 4)}),
        (convolution, "wider than the sentence", ((2, 3, 4), (5, 4, 4), (4,)), {"dilation": 4}),
        (convolution, "one position", ((2, 3, 4), (1, 4, 5), (5,)), {}),
    )
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
MODELS = {
    "convolution": (ConvolutionalTransformer, "kernel_size", 5),
    "restricted_attention": (RestrictedTransformer, "attention_window", 2),
}
SHAPE = dict(n_layers=1, d_model=8, d_ff=8, n_heads=2)


@every_case
def test_backward_is_the_derivative_of_forward(case):
    inputs, options = case.make()
    assert check_gradient(case.rule, *inputs, **options) < 1e-6


@every_case
def test_outputs_and_gradients_have_the_dtype_of_the_inputs(case, rng):
    results, _ = outputs_and_gradients(case.rule, *case.make(np.float32), rng)
    assert {array.dtype for array in results} == {np.dtype(np.float32)}


@pytest.mark.parity
@pytest.mark.parametrize("case", [case for case in CASES if case.rule is convolution], ids=str)
def test_values_and_gradients_are_those_of_pytorch(case, rng, torch, relative_error):
    inputs, options = case.make()
    y, saved = case.rule.forward(*inputs, **options)
    (grad_y,) = cotangents(case.rule, as_tuple(y), rng)
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    theirs = by_convolution(torch, *tensors, **options)
    theirs.backward(torch.tensor(grad_y))
    expected = [theirs.detach(), *(each.grad for each in tensors)]
    for found, wanted in zip([y, *case.rule.backward(grad_y, saved)], expected, strict=True):
        assert relative_error(found, wanted.numpy()) < 1e-12


def by_convolution(torch, x, weight, bias, dilation=1, mask=None):
    x = x if mask is None else x * torch.tensor(mask)[..., None]
    options = {"padding": (len(weight) - 1) // 2 * dilation, "dilation": dilation}
    return torch.nn.functional.conv1d(x.mT, weight.permute(2, 1, 0), bias, **options).mT


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_of_an_experiment_trains_translates_and_is_refused_without_its_program(kind, tmp_path):
    model, option, value = MODELS[kind]
    sections = {"data": tiny_text(tmp_path), "training": dict(directory="run", updates=2, threads=1)}
    write_config(tmp_path / "config", model={"kind": kind, option: value} | SHAPE, **sections)
    command = partial(python, cwd=tmp_path, sent="a b\nb\n")
    done = command(*RUN, "train", "config")
    assert done.returncode == 0, done.stderr
    (checkpoint,) = (tmp_path / "run/checkpoints").glob("*2.npz")
    loaded, _ = load_model(checkpoint)  # here it is registered
    assert type(loaded) is model is model_class(loaded.config) and getattr(loaded.config, option) == value
    arguments = "translate", "--checkpoint", str(checkpoint)
    done = command(*RUN, *arguments)
    assert (done.returncode, done.stdout.count("\n")) == (0, 2), done.stderr
    for refused in (arguments, ("train", "config")):
        done = command("-m", "minitransformer", *refused)
        line = rf"minitransformer.*: .*must be one of transformer.*got '{kind}'.*python -m examples.paper.run.*\n"
        assert done.returncode == 2 and re.fullmatch(line, done.stderr), done.stderr


@pytest.mark.parametrize("kind", MODELS)
def test_options_of_a_kind_belong_to_it_alone(kind):
    model, option, value = MODELS[kind]
    config = Config.from_dict({"model": {"kind": kind, option: value, "vocab_size": 9}})
    assert Config.from_dict(config.to_dict()) == config and model_class(config.model) is model
    other = next(each for each in MODELS if each != kind)
    with pytest.raises(ConfigError, match=f"config: .* the last with model.{option}: "):
        Config.from_dict({"model": {"kind": other, option: value}})
