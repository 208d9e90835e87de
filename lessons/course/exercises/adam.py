"""Exercises of lesson 11: a step of Adam, and how far it goes."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.optim import Adam

# -- adam_step --------------------------------------------------------------------------------------------------------


class Vectors:
    """What the engine's Adam asks of a model."""

    def __init__(self, data, grad):
        self.data, self.grad = data.copy(), grad.copy()


def adam_inputs(rng):
    for n, t in ((1, 1), (3, 2), (5, 40)):
        w, grad, m = rng.standard_normal((3, n))
        v = rng.uniform(0.1, 2.0, n)
        if t == 1:
            m, v = np.zeros(n), np.zeros(n)
        yield w, grad, m, v, t, 0.05, 0.9, 0.98, 0.01


def adam_step(w, grad, m, v, t, rate, beta1, beta2, eps):
    vectors = Vectors(w, grad)
    adam = Adam(vectors, beta1, beta2, eps)
    adam.m[:], adam.v[:], adam.step_count = m, v, t - 1
    adam.step(rate)
    return vectors.data, adam.m, adam.v


def adam_with(change=None, new_m=None, new_v=None):
    """Adam with another rule for the change, or for one of the means."""

    def wrong(w, grad, m, v, t, rate, beta1, beta2, eps):
        m = (new_m or (lambda m, g, beta: beta * m + (1 - beta) * g))(m, grad, beta1)
        v = (new_v or (lambda v, g, beta: beta * v + (1 - beta) * g**2))(v, grad, beta2)
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        step = change(m, v, m_hat, v_hat, grad, eps) if change else m_hat / (np.sqrt(v_hat) + eps)
        return w - rate * step, m, v

    return wrong


ADAM_STEP = Exercise(
    "11_training.adam_step",
    adam_inputs,
    reference=adam_step,
    tested="updates 1, 2 and 40 of one, three and five weights, with an eps large enough to see, against the engine",
    parts=("w", "m", "v"),
    mistakes=(
        Mistake(
            "Both corrections are missing: divide m by 1 - beta1^t and v by 1 - beta2^t.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: m / (np.sqrt(v) + eps)),
        ),
        Mistake(
            "The correction of v is missing: divide it by 1 - beta2^t.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: m_hat / (np.sqrt(v) + eps)),
        ),
        Mistake(
            "The correction of m is missing: divide it by 1 - beta1^t.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: m / (np.sqrt(v_hat) + eps)),
        ),
        Mistake(
            "eps stands under the root; it is added to the root.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: m_hat / np.sqrt(v_hat + eps)),
        ),
        Mistake(
            "eps is added to the root of v before the correction; it is added to the root of the corrected v.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: m_hat * np.sqrt(v / v_hat) / (np.sqrt(v) + eps)),
        ),
        Mistake(
            "The root is missing: the step would not have the rate's unit.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: m_hat / (v_hat + eps)),
        ),
        Mistake(
            "The gradient itself is divided by the root of v; the running mean m belongs there.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: g / (np.sqrt(v_hat) + eps)),
        ),
        Mistake(
            "The weights go up the gradient: subtract the step.",
            adam_with(lambda m, v, m_hat, v_hat, g, eps: -m_hat / (np.sqrt(v_hat) + eps)),
        ),
        Mistake(
            "The corrected means are returned. Keep m and v as they are: the next update starts from them.",
            lambda w, grad, m, v, t, rate, beta1, beta2, eps: (
                adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)[0],
                adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)[1] / (1 - beta1**t),
                adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)[2] / (1 - beta2**t),
            ),
        ),
        *(
            Mistake(
                "v is a mean of gradients; it must be one of their squares.",
                adam_with(new_v=lambda v, g, beta, size=size: beta * v + (1 - beta) * size(g)),
            )
            for size in (np.abs, np.positive)
        ),
        Mistake(
            "t + 1 stands in the corrections: t already is the number of this update, and the first is 1.",
            lambda w, grad, m, v, t, *rest: adam_step(w, grad, m, v, t + 1, *rest),
        ),
        Mistake(
            "beta weights the new gradient and 1 - beta the old mean: nearly everything is forgotten each time.",
            adam_with(
                new_m=lambda m, g, beta: (1 - beta) * m + beta * g,
                new_v=lambda v, g, beta: (1 - beta) * v + beta * g**2,
            ),
        ),
    ),
)

# -- distances --------------------------------------------------------------------------------------------------------


def distances_inputs(rng):
    yield np.array([2.0]), np.array([1000.0]), 0.1, 0.9, 0.98, 1e-9
    yield np.array([1.0, 1.0, -1.0]), np.array([1.0, 10.0, 10.0]), 0.1, 0.9, 0.98, 1e-9
    yield rng.standard_normal(12), rng.uniform(0.1, 10.0, 12), 0.01, 0.9, 0.98, 1e-9


def adam_distance(grads, rate, beta1, beta2, eps, *, fresh=False, still_clock=False):
    w, m, v = np.zeros((3, 1))
    rates = np.broadcast_to(rate, len(grads))
    for t, (grad, rate) in enumerate(zip(grads, rates, strict=True), start=1):
        if fresh:
            m, v = np.zeros((2, 1))
        w, m, v = adam_step(w, np.array([grad]), m, v, 1 if fresh or still_clock else t, rate, beta1, beta2, eps)
    return float(w[0])


def distances(grads, factors, rate, beta1, beta2, eps, **mistake):
    return float(-rate * (factors * grads).sum()), adam_distance(factors * grads, rate, beta1, beta2, eps, **mistake)


DISTANCES = Exercise(
    "11_training.distances",
    distances_inputs,
    reference=distances,
    tested="runs of one, three and twelve updates with changing factors",
    parts=("plain descent", "Adam"),
    mistakes=(
        Mistake(
            "The factors do not reach Adam. A constant factor would cancel, but one that changes does not.",
            lambda grads, factors, *rest: (distances(grads, factors, *rest)[0], adam_distance(grads, *rest)),
        ),
        Mistake(
            "The factors are used nowhere: each multiplies the gradient of its update.",
            lambda grads, factors, *rest: distances(grads, np.ones_like(factors), *rest),
        ),
        Mistake(
            "In Adam the factor multiplies the rate. It multiplies the gradient, which Adam divides by its own size.",
            lambda grads, factors, rate, *rest: (
                distances(grads, factors, rate, *rest)[0],
                adam_distance(grads, rate * factors, *rest),
            ),
        ),
        Mistake(
            "m and v start from 0 in each update, so each step is the rate times a sign. They must be carried along.",
            lambda *inputs: distances(*inputs, fresh=True),
        ),
        Mistake(
            "t stays at 1: the corrections must fade, so count the updates.",
            lambda *inputs: distances(*inputs, still_clock=True),
        ),
        Mistake("The two are exchanged: plain descent first.", lambda *inputs: distances(*inputs)[::-1]),
        Mistake(
            "Both have the wrong sign: w_last - w_first, and a weight goes down its gradient.",
            lambda *inputs: tuple(-distance for distance in distances(*inputs)),
        ),
    ),
)
