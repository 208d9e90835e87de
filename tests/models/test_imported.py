"""The options that others' weights need: values of the activations, and the gradient of the whole model."""

import math

import numpy as np
import pytest
from small_models import check_derivative, random_batch, small_model

from minitransformer.autograd import Tensor
from minitransformer.config import model_section
from minitransformer.models import ImportedConfig, ImportedTransformer, build_model
from minitransformer.models.imported import ACTIVATIONS

DEFINITIONS = {
    "swish": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_sigmoid": lambda x: x / (1 + math.exp(-1.702 * x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_the_values_of_its_definition_and_does_not_overflow(name):
    x = np.array([-30.0, -3.0, -0.7, 0.0, 0.4, 2.0, 30.0])
    np.testing.assert_allclose(ACTIVATIONS[name](Tensor(x)).data, [DEFINITIONS[name](each) for each in x], atol=1e-14)
    assert np.isfinite(ACTIVATIONS[name](Tensor(np.array([-1e4, 1e4]))).data).all()


@pytest.mark.parametrize("activation", ["relu", *ACTIVATIONS])
def test_the_gradient_of_the_loss_is_that_of_finite_differences(activation, rng):
    """With a bias on the logits, final norms after post-norm, another epsilon, and dropout."""
    options = {"activation": activation, "output_bias": True, "final_norm": True, "norm_eps": 1e-2, "p_drop_ffn": 0.2}
    check_derivative(small_model(rng, kind="imported", **options), random_batch(rng), rng)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_with_none_of_its_options_it_is_the_transformer(norm):
    shape = {"vocab_size": 11, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_ff": 12, "norm": norm}
    plain, imported = (build_model(model_section(kind)(kind=kind, **shape)) for kind in ("transformer", "imported"))
    for model in (plain, imported):
        model.parameters.data *= 1e-2  # so that the variances are as small as the epsilon of the norms
    np.testing.assert_array_equal(imported([[4, 2]], [[1, 5]]).data, plain([[4, 2]], [[1, 5]]).data)


def test_epsilon_and_final_norm_change_the_result():
    shape = {"vocab_size": 11, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_ff": 12, "kind": "imported"}
    changes = [{}, {"norm_eps": 0.1}, {"final_norm": True, "norm_eps": 0.1}, {"activation": "gelu"}]
    changes += [{"norm": "pre"}, {"norm": "pre", "norm_eps": 0.1}]
    logits = [
        ImportedTransformer(ImportedConfig(**shape, **change), seed=1)([[4, 2]], [[1, 5]]).data for change in changes
    ]
    assert len({array.tobytes() for array in logits}) == len(changes)
