"""The experiments on the paper's claims: tasks have the right labels, and measures are what they are by definition."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from small_models import small_model

from examples.paper import attention_scale, long_range, positions, positions_report, trials
from minitransformer.autograd import Tensor
from minitransformer.config import EOS
from minitransformer.nn.positions import sinusoids
from minitransformer.nn.randomness import Initializer
from minitransformer.ops.additive_attention import additive_attention_weights
from minitransformer.ops.attention import attention_weights
from minitransformer.ops.softmax import softmax_forward
from minitransformer.optim import Adam


def test_a_trial_warms_up_for_a_tenth_to_its_highest_rate_and_clips_gradients_to_norm_1(rng, monkeypatch):
    parameters, steps = small_model(rng).parameters, []
    monkeypatch.setattr(Adam, "step", lambda adam, rate: steps.append((rate, np.linalg.norm(parameters.grad))))
    trials.learn(parameters, lambda: parameters.grad.fill(7.0), 60, 0.02)
    expected = [(0.02 * min(update / 6, (6 / update) ** 0.5), 1.0) for update in range(1, 61)]
    np.testing.assert_allclose(steps, expected, rtol=1e-5)


# Sec. 3.2.1: attention at growing d_k


@pytest.mark.parametrize("d_k", [4, 64, 512])
def test_the_variance_of_dot_products_is_d_k_and_of_scaled_ones_1(rng, d_k):
    measure, n = attention_scale.statistics, 200
    for kind, variance in (("dot product", d_k), ("scaled dot product", 1)):
        assert measure(kind, d_k, n, rng)["variance"] == pytest.approx(variance, rel=0.5)


def test_scores_are_those_that_the_models_attend_by(rng):
    scores = attention_scale.scores
    q, k, w = rng.standard_normal((5, 8)), rng.standard_normal((7, 8)), rng.standard_normal(8)
    weights = {kind: softmax_forward(scores(kind, q, k, w))[0] for kind in ("scaled dot product", "additive")}
    np.testing.assert_allclose(weights["scaled dot product"], attention_weights(q, k)[0], rtol=1e-12)
    np.testing.assert_allclose(weights["additive"], additive_attention_weights(q, k, w)[0], rtol=1e-12)


def test_equal_weights_have_the_entropy_ln_n_and_pass_a_gradient_of_1_over_n(rng, monkeypatch):
    n = 50
    monkeypatch.setattr(attention_scale, "scores", lambda *_: np.zeros((n, n)))
    found = attention_scale.statistics("dot product", 4, n, rng)
    assert found["entropy"] == pytest.approx(math.log(n))
    assert found["gradient"] == pytest.approx(math.sqrt(n - 1) / n, rel=0.1)  # n - 1: the mean is taken out


def test_the_answer_is_the_value_beside_the_key_that_is_asked_for(rng):
    for keys, values, asked, answers in zip(*attention_scale.draw_recall(rng, attention_scale.SETTINGS), strict=True):
        assert len(set(keys)) == len(keys) and set(asked) == set(keys)
        beside = dict(zip(keys.tolist(), values.tolist(), strict=True))
        assert [beside[key] for key in asked.tolist()] == answers.tolist()


@pytest.mark.parametrize("kind", ["dot product", "scaled dot product"])
def test_a_head_whose_queries_match_its_keys_recalls_everything(rng, kind):
    settings = attention_scale.SETTINGS
    model = attention_scale.Recall(kind, settings["d_model"], settings, rng)
    one_hot = np.eye(settings["d_model"])
    for parameter, scale in ((model.keys, 20.0), (model.values, 20.0), (model.w_q, 1.0), (model.w_k, 1.0)):
        parameter.data[...] = scale * one_hot[: len(parameter)]
    model.w_o.data[...] = one_hot[:, : model.w_o.shape[1]]
    loss, accuracy = attention_scale.loss_and_accuracy(model, attention_scale.draw_recall(rng, settings))
    assert accuracy == 1 and loss.item() < 1e-6
    model.w_o.data[...] = 0.0  # all answers, 0 among them, are as probable
    loss, _ = attention_scale.loss_and_accuracy(model, attention_scale.draw_recall(rng, settings))
    assert loss.item() == pytest.approx(math.log(settings["values"] + 1), rel=1e-6)


def test_the_cost_of_scores_is_that_of_forward_and_backward(rng, monkeypatch):
    passes = []

    def attend(kind, q, *others):
        return SimpleNamespace(backward=lambda grad_y: passes.append((kind, q.shape, grad_y.shape)))

    monkeypatch.setattr(attention_scale, "attend", attend)
    monkeypatch.setattr(attention_scale, "time_and_memory", lambda work, rounds: work())
    attention_scale.cost("additive", 8, 5, rng)
    assert passes == [("additive", (4, 5, 8), (4, 5, 8))]


# Sec. 3.5: positions


@pytest.mark.parametrize("base", [10, 10_000, 1_000_000])
def test_the_distance_of_two_positions_depends_on_their_offset_alone(base):
    report, n, d_model = positions_report, 40, 16
    vectors = sinusoids(0, n, d_model, base)
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    offsets = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    np.testing.assert_allclose(apart, report.distances(base, n, d_model)[offsets], atol=1e-12)


def test_a_model_may_begin_at_any_position_and_sees_no_more_of_it():
    settings = positions.SETTINGS | {"n_layers": 1, "d_model": 16}
    for base in (None, 100):
        model = positions.new_model(base, 1, settings)
        for first in (3, 0):
            positions.begin_at(model, first)
            found = model.tgt_embedding.positions(2, 5).data
            wanted = (
                sinusoids(first + 2, first + 5, 16, 100) if base else model.tgt_embedding.learned.data[first + 2 :][:3]
            )
            np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_random_offsets_reach_every_position_of_the_test_and_no_longer_sequence(monkeypatch):
    settings = positions.SETTINGS | positions.QUICK | {"updates": 60}
    base, is_shifted, own = positions.of_training("learned, random offsets, up to 8", settings)
    assert (base, is_shifted, own["longest"], own["tested"], own["updates"]) == (None, True, 8, [8, 10, 12], 120)
    begun, lengths, begin_at, draw_copy = [], [], positions.begin_at, positions.draw_copy
    monkeypatch.setattr(positions, "begin_at", lambda model, first: (begun.append(first), begin_at(model, first)))
    monkeypatch.setattr(
        positions, "draw_copy", lambda rng, n, *rest, **more: (lengths.append(n), draw_copy(rng, n, *rest, **more))[1]
    )
    positions.trial("learned, random offsets, up to 8", 1, settings)
    assert begun.pop() == 0  # where the tests begin
    # 12 symbols and the end mark stand at 0 to 12, 8 and the end mark at 4 to 12 as well
    assert set(begun) == set(range(5))
    assert max(lengths[:-3]) == 8 and lengths[-3:] == [8, 10, 12]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("none", {"sequences": 1, "copied": 1, "ended": 1, "tokens": 1}),
        ("never ends", {"sequences": 0, "copied": 1, "ended": 0, "tokens": 5 / 6}),
        ("ends everywhere", {"sequences": 0, "copied": 1, "ended": 0, "tokens": 1 / 6}),
        ("wrong symbol", {"sequences": 0, "copied": 0, "ended": 1, "tokens": 5 / 6}),
    ],
)
def test_the_end_mark_is_scored_apart_from_the_symbols(rng, fault, expected):
    batch = positions.draw_copy(rng, 5, positions.SETTINGS)
    vocab_size = positions.FIRST_SYMBOL + positions.SETTINGS["symbols"]
    logits = np.eye(vocab_size)[batch.tgt_out]
    logits[..., EOS] += {"never ends": -9.0, "ends everywhere": 9.0}.get(fault, 0.0)
    if fault == "wrong symbol":
        logits[:, 2, positions.FIRST_SYMBOL :] = logits[:, 2, : positions.FIRST_SYMBOL - 1 : -1]

    class Planted:
        def __call__(self, src, tgt_in):
            return Tensor(logits)

        def loss(self, batch):
            return None, Tensor(np.float64(0.25 * batch.tgt_out.size))

    found = positions.scores(Planted(), batch)
    assert found == pytest.approx(expected | {"nll": 0.25})


# Sec. 4: copying over a distance


def test_the_loss_and_the_accuracy_of_a_copy_are_those_of_a_symbol(rng, monkeypatch):
    n_symbols, drawn, draw = long_range.SETTINGS["symbols"], [], long_range.draw_sequences
    answers = rng.integers(1, n_symbols + 1, (3, 4))
    loss = long_range.mean_loss(Tensor(np.zeros((3, 4, 1 + n_symbols))), answers)
    assert loss.item() == pytest.approx(math.log(1 + n_symbols))

    def all_but_the_last(model, embedded):
        answers = drawn[-1][1].copy()
        answers[:, -1] = answers[:, -1] % n_symbols + 1
        return Tensor(np.eye(1 + n_symbols)[answers])

    monkeypatch.setattr(long_range, "draw_sequences", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    monkeypatch.setattr(long_range, "learn", lambda *given: None)
    monkeypatch.setattr(long_range, "share_from_source", lambda *given: 0.0)
    monkeypatch.setattr(long_range.Copier, "logits", all_but_the_last)
    found = long_range.trial("self-attention, 8", 1, long_range.SETTINGS | {"learning_rates": [0.1]})
    assert found["accuracy"] == [0.75] and len(drawn[-1][0]) == 500


def test_the_marked_symbols_are_asked_for_in_order_at_the_distance(rng):
    n_symbols, copied, distance = long_range.SETTINGS["symbols"], long_range.SETTINGS["copied"], 9
    ids, answers = long_range.draw_sequences(rng, distance, long_range.SETTINGS)
    asked = ids == 2 * n_symbols + 1
    np.testing.assert_array_equal(np.argwhere(asked)[:copied, 1], distance + np.arange(copied))
    assert asked.sum(axis=1).max() == copied
    marked = (ids > n_symbols) & ~asked
    np.testing.assert_array_equal(marked[:, distance:], False)
    np.testing.assert_array_equal(ids[marked].reshape(-1, copied) - n_symbols, answers)
    rows, positions = np.nonzero(asked)
    np.testing.assert_array_equal(ids[rows, positions - distance] - n_symbols, answers.ravel())


def test_all_stacks_have_about_as_many_parameters():
    settings = long_range.SETTINGS
    for kind in settings["kinds"].values():
        width = long_range.width_for(kind, settings)
        model = long_range.Copier(kind, width, settings, Initializer(1))
        count = sum(parameter.data.size for _, parameter in model.named_parameters())
        assert count == pytest.approx(settings["parameters"], rel=0.1)


@pytest.mark.parametrize(
    ("kind", "reach"),
    [
        ("recurrent", None),
        ("recurrent with attention", None),
        ("convolutional", 4 * 2),
        ("dilated convolutional", 2 * (1 + 3 + 9 + 27)),
        ("restricted self-attention", 4 * 4),
        ("self-attention", None),
    ],
)
def test_a_gradient_arrives_exactly_from_where_the_layers_reach(rng, kind, reach):
    settings = long_range.SETTINGS | {"batch": 2}
    model = long_range.Copier(settings["kinds"][kind], 16, settings, Initializer(1))
    for distance in (4, reach or 90, (reach or 90) + 1):
        drawn = long_range.draw_sequences(rng, distance, settings)
        share = long_range.share_from_source(model, *drawn, distance)
        assert (share > 0) == (reach is None or distance <= reach), distance
