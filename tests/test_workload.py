"""What a kind of model says it computes and keeps is what a step of it computes and keeps."""

import math
import tomllib
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from small_models import batch_of_shape

from minitransformer.autograd.tape import topological_order
from minitransformer.config import ModelConfig
from minitransformer.models import RecurrentModel, Transformer, build_model
from minitransformer.nn import DropoutMasks
from minitransformer.ops.additive_attention import additive_attention
from minitransformer.ops.gru import gru
from minitransformer.ops.rule import Rule
from minitransformer.planning import Shape, plan

RECURRENT = {"kind": "recurrent", "n_layers": 3, "d_model": 12}
STACKS = {"n_layers": 3, "d_model": 12, "d_ff": 20, "n_heads": 2}
ATTENTIONS = ("none", "dot", "additive")
# Some values are read as from a file: there a string is equal to the one in the code, but not the same object.
KINDS = {
    "transformer": STACKS,
    "language model": STACKS | {"kind": "language_model"},
    **{f"recurrent, {each}": RECURRENT | tomllib.loads(f"attention = '{each}'") for each in ATTENTIONS},
    "recurrent, one layer": RECURRENT | {"n_layers": 1},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_length = pytest.mark.parametrize("lengths", [(5, 7), (21, 3), (4, 26), (33, 18)], ids=str)


def config_of(kind: str, p_drop: float = 0.0) -> ModelConfig:
    return ModelConfig(vocab_size=40, p_drop=p_drop, **KINDS[kind])


def kept(config: ModelConfig, shape: Shape) -> Counter:
    """Elements of the arrays that forward saves, each array once, by the kind of their dtype."""
    loss, _ = build_model(config).loss(batch_of_shape(config, shape), DropoutMasks(0))
    arrays = {}

    def visit(value) -> None:
        if isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            arrays[id(value)] = value
        elif isinstance(value, tuple | list):
            for each in value:
                visit(each)

    for node in topological_order(loss.node):
        visit(node.saved)
    sizes = Counter()
    for array in arrays.values():
        sizes[array.dtype.kind] += array.size
    return sizes


def kept_of_a_sentence(config: ModelConfig, src_length: int, tgt_length: int) -> int:
    """Floating-point elements: what one more sentence adds to those of a batch, which include the parameters."""
    two, three = (kept(config, Shape(sentences, src_length, tgt_length))["f"] for sentences in (2, 3))
    return three - two


@every_kind
@every_length
def test_forward_keeps_about_as_much_as_is_planned(kind, lengths):
    config = config_of(kind)
    planned = plan(config, Shape(1, *lengths)).activations / np.dtype(config.dtype).itemsize
    assert planned == pytest.approx(kept_of_a_sentence(config, *lengths), rel=0.05)


@every_kind
def test_a_pair_of_source_and_target_position_keeps_what_is_planned(kind):
    """What is proportional to S * T, exactly: the second difference."""
    config = config_of(kind)
    found, planned = 0, 0
    for src_length, tgt_length, sign in ((9, 14, 1), (8, 14, -1), (9, 13, -1), (8, 13, 1)):
        found += sign * kept_of_a_sentence(config, src_length, tgt_length)
        planned += sign * plan(config, Shape(1, src_length, tgt_length)).activations
    assert planned == np.dtype(config.dtype).itemsize * found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "recurrent" in kind])
@pytest.mark.parametrize("longer", [(1, 0), (0, 1)], ids=("source", "target"))
def test_each_position_of_a_recurrent_model_keeps_what_is_planned(kind, longer):
    """Exactly: the difference that one more position makes."""
    config, lengths = config_of(kind), (9, 14)
    more = tuple(length + extra for length, extra in zip(lengths, longer, strict=True))
    found = kept_of_a_sentence(config, *more) - kept_of_a_sentence(config, *lengths)
    planned = plan(config, Shape(1, *more)).activations - plan(config, Shape(1, *lengths)).activations
    assert planned == np.dtype(config.dtype).itemsize * found


@every_kind
def test_no_positions_keep_nothing(kind):
    assert plan(config_of(kind), Shape(3, 0, 0)).activations == 0


@every_kind
def test_a_loss_depends_on_the_source_if_the_model_says_that_it_reads_it(kind):
    model, batch = build_model(config_of(kind)), batch_of_shape(config_of(kind), Shape(2, 5, 6))
    other = replace(batch, src=batch.src[::-1])
    assert (model.loss(batch)[0].item() != model.loss(other)[0].item()) == model.reads_source


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "n_heads" in KINDS[kind] and "language" not in kind])
def test_every_attention_of_the_workload_has_its_map(kind):
    config, (src_length, tgt_length) = config_of(kind), (5, 7)
    batch = batch_of_shape(config, Shape(2, src_length, tgt_length))
    maps = build_model(config).attention_maps(batch.src, batch.tgt_in)
    planned = Counter()
    for layers, queries, keys, _ in Transformer.workload(config, src_length, tgt_length).attentions:
        planned[2, config.n_heads, queries, keys] += layers
    assert Counter(weights.shape for weights in maps.values()) == planned


@every_kind
@every_length
def test_dropout_keeps_exactly_the_planned_masks(kind, lengths):
    without, dropped = config_of(kind), config_of(kind, p_drop=0.1)
    shape = Shape(2, *lengths)
    planned = plan(dropped, shape).activations - plan(without, shape).activations
    assert planned == kept(dropped, shape)["b"] - kept(without, shape)["b"]


def working_memory(rule: Rule, inputs: list[tuple[int, ...]], parameters: list[tuple[int, ...]]) -> int:
    """Elements that backward has in memory at its peak, without what forward saved and the parameters' gradients."""
    rng = np.random.default_rng(0)
    y, saved = rule.forward(*(rng.standard_normal(shape) for shape in (*inputs, *parameters)))
    tracemalloc.start()
    rule.backward(y, saved)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak // y.itemsize - sum(map(math.prod, parameters))


@pytest.mark.parametrize("lengths", [(60, 160), (150, 70), (5, 90), (90, 3)], ids=str)
def test_the_largest_rule_of_a_recurrent_model_needs_the_planned_memory(lengths):
    d, (S, T), longest = 64, lengths, max(lengths)
    config = ModelConfig(kind="recurrent", attention="additive", n_layers=1, d_model=d, vocab_size=40)
    weights = [(d, 3 * d), (d, 3 * d), (3 * d,), (3 * d,)]
    needs = {
        "gru": working_memory(gru, [(1, longest, d), (1, d)], weights),
        "additive_attention": working_memory(additive_attention, [(1, T, d), (1, S, d), (1, S, d)], [(d,)]),
    }
    name, planned = RecurrentModel.workload(config, S, T).largest
    assert name == max(needs, key=needs.get)
    assert 0.8 * needs[name] < planned < 1.08 * needs[name]  # NumPy before 2.3 needs a fifth more than later ones
