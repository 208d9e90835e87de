"""The options that others' weights need: values of the activations, and the gradient of the whole model."""

import math

import numpy as np
import pytest

from minitransformer.autograd import Tensor
from minitransformer.models import ImportedConfig, ImportedTransformer
from minitransformer.models.imported import ACTIVATIONS
from minitransformer.text import pad_batch

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
    """Along random directions, with a bias on the logits, final norms after post-norm and another epsilon."""
    options = {"activation": activation, "output_bias": True, "final_norm": True, "norm_eps": 1e-2}
    shape = {"vocab_size": 11, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_ff": 12, "dtype": "float64"}
    model = ImportedTransformer(ImportedConfig(kind="imported", **shape, **options), seed=3)
    vector = model.parameters.data
    vector += rng.normal(scale=0.1, size=len(vector))
    batch = pad_batch([[4, 5, 6], [7, 8]], [[5, 6], [9, 10, 4]])
    model.parameters.zero_grad()
    model.loss(batch)[0].backward()
    for name, of_table in (("", None), ("output_bias", "output_bias")):
        direction = np.zeros_like(vector)
        for each, dims, offset in model.parameters.table:
            if of_table in (None, each):
                size = int(np.prod(dims))
                direction[offset : offset + size] = rng.normal(size=size)
        step, start = 1e-4, vector.copy()
        losses = []
        for sign in (1, -1):
            vector[:] = start + sign * step * direction
            losses.append(model.loss(batch)[0].item())
        vector[:] = start
        found = (losses[0] - losses[1]) / (2 * step)
        assert found == pytest.approx(model.parameters.grad @ direction, rel=1e-4), name


def test_epsilon_and_final_norm_change_the_result():
    shape = {"vocab_size": 11, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_ff": 12, "kind": "imported"}
    changes = [{}, {"norm_eps": 0.1}, {"final_norm": True, "norm_eps": 0.1}, {"activation": "gelu"}]
    logits = [
        ImportedTransformer(ImportedConfig(**shape, **change), seed=1)([[4, 2]], [[1, 5]]).data for change in changes
    ]
    assert len({array.tobytes() for array in logits}) == len(changes)
