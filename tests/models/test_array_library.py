"""Every kind of model computes with the array library that it was built with: NumPy's arrays never reach CuPy's."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from like_cupy import like_cupy
from small_models import losses, random_batch, small_model, train

import examples.paper.models  # noqa: F401
from minitransformer.generation import beam_search
from minitransformer.kernels import mode, numpy, selection

DROP = {"p_drop": 0.2, "p_drop_attention": 0.3, "p_drop_ffn": 0.25}
KINDS = [
    {"kind": "transformer", **DROP},
    {"kind": "transformer", "norm": "pre", "attention_bias": True, "positions": "learned", **DROP},
    {"kind": "language_model", **DROP},
    {"kind": "recurrent", "attention": "dot", "p_drop": 0.2},
    {"kind": "recurrent", "attention": "additive", "p_drop": 0.2},
    {"kind": "restricted_attention", "attention_window": 2, **DROP},
    {"kind": "convolution", "dilation": 2, **DROP},
]


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in, with NumPy's dropout masks: a GPU's are drawn by a kernel."""
    masks = SimpleNamespace(draw_mask=lambda *options: like_cupy.asarray(numpy.draw_mask(*options)))
    monkeypatch.setitem(sys.modules, "cupy", like_cupy)
    monkeypatch.setitem(selection.LIBRARIES, "cupy", masks)
    return like_cupy


def test_arrays_of_both_libraries_do_not_mix(cupy):
    x, y = cupy.ones((2, 3)), np.ones((2, 3))
    for mixed in (
        lambda: x * y,
        lambda: y + x,
        lambda: x @ y.T,
        lambda: cupy.concatenate([x, y]),
        lambda: cupy.where(x > 0, x, y),
        lambda: x.__setitem__(slice(1, None), y[1:]),
    ):
        with pytest.raises(TypeError, match="Unsupported type"):
            mixed()
    assert isinstance(x.sum() + cupy.asarray(y), cupy.ndarray) and type(x.get()) is np.ndarray


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_training_and_translation_are_those_with_numpy(changes, cupy):
    found = []
    for xp in (np, cupy):
        rng = np.random.default_rng(8)
        model = small_model(rng, xp, kernel_mode="simple", **changes)
        batches = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))]
        with mode("simple"):  # for the optimizer
            values = losses(train(model, batches, 3, warmup_steps=20, lr_scale=0.1))
        assert isinstance(model.parameters.data, xp.ndarray)
        src = np.array([[4, 5, 6, 2], [7, 8, 2, 0]])
        options = {"max_extra": 3, "allowed": lambda prefixes: np.tile(np.arange(13) != 4, (len(prefixes), 1))}
        best = [hypotheses[0] for hypotheses in beam_search(model, src, **options)]
        found.append((values + [each.log_prob for each in best], [each.ids for each in best]))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-12) and found[1][1] == found[0][1]
