"""Exercises on dropout: lesson 11's layer, and the bug zoo's probe of a layer that one can only call."""

import numpy as np

from course.exercise import Exercise, Mistake

# -- lesson 11, dropout -----------------------------------------------------------------------------------------------


def dropout_inputs(rng):
    for n, p_drop, training in ((2, 0.25, True), (5, 0.4, True), (5, 0.25, False)):
        keep = rng.random(n) >= p_drop
        keep[:2] = True, False
        yield rng.standard_normal(n), keep, p_drop, training


def dropped(x, keep, p_drop):
    return x * keep / (1.0 - p_drop)


DROPOUT = Exercise(
    "11_training.dropout",
    dropout_inputs,
    reference=lambda x, keep, p_drop, training: dropped(x, keep, p_drop) if training else x,
    tested="two probabilities in training, one in evaluation",
    mistakes=(
        Mistake(
            "Dropout is active at inference: without training, x comes back as it is.",
            lambda x, keep, p_drop, training: dropped(x, keep, p_drop),
        ),
        Mistake(
            "What stays is not scaled up: divide by 1 - p_drop, or the mean in training is lower than in evaluation.",
            lambda x, keep, p_drop, training: x * keep if training else x,
        ),
        Mistake(
            "This divides by p_drop. What stays is a share of 1 - p_drop, and makes up for the rest.",
            lambda x, keep, p_drop, training: x * keep / p_drop if training else x,
        ),
        Mistake(
            "The factor is there twice: divided by in training, and multiplied by in evaluation.",
            lambda x, keep, p_drop, training: dropped(x, keep, p_drop) if training else x * (1.0 - p_drop),
        ),
        Mistake(
            "The factor is used at inference. There x must come back as it is: divide by 1 - p_drop in training.",
            lambda x, keep, p_drop, training: x * keep if training else x * (1.0 - p_drop),
        ),
        Mistake(
            "The mask is the wrong way round: True in keep means that the value stays.",
            lambda x, keep, p_drop, training: dropped(x, ~keep, p_drop) if training else x,
        ),
    ),
)

# -- bug zoo, still_drops ---------------------------------------------------------------------------------------------


class Layer:
    """max(0, x W1 + b1) W2, or without the second product, dropped at one place with probability ``p_drop`` or not."""

    def __init__(self, rng, p_drop, inside):
        self.w1, self.w2, self.b1 = (
            rng.standard_normal((4, 32)),
            rng.standard_normal((32, 4)),
            rng.uniform(1.0, 2.0, 32),
        )
        self.rng, self.p_drop, self.inside = rng, p_drop, inside

    def __call__(self, x):
        if self.inside:
            return self.dropped(np.maximum(0.0, x @ self.w1 + self.b1)) @ self.w2
        return self.dropped(np.maximum(0.0, x @ self.w1))

    def dropped(self, x):
        return x * (self.rng.random(x.shape) >= self.p_drop)


def still_drops_inputs(rng):
    for p_drop, inside in ((0.2, False), (0.0, False), (0.3, True), (1e-5, True), (0.0, True)):
        yield Layer(np.random.default_rng(rng.integers(1000)), p_drop, inside), 4


def answers_differ(layer, x):
    return bool((layer(x) != layer(x)).any())


def many(d_model):
    return np.random.default_rng(1).standard_normal((100_000, d_model))


STILL_DROPS = Exercise(
    "bug_zoo.still_drops",
    still_drops_inputs,
    reference=lambda layer, d_model: layer.p_drop > 0.0,
    tested="five layers: two drop nothing, two drop inside, and one of these drops one value in a hundred thousand",
    mistakes=(
        Mistake(
            "You looked for zeros. A zero also comes from a ReLU, and what is dropped inside a layer leaves none. "
            "Compare two answers to one question.",
            lambda layer, d_model: bool((layer(many(d_model)) == 0.0).any()),
        ),
        Mistake(
            "A few numbers were compared, but one layer drops one value in a hundred thousand. Compare many at once.",
            lambda layer, d_model: answers_differ(layer, many(d_model)[:2]),
        ),
        Mistake(
            "You asked about zeros. A zero that is dropped is still a zero: ask with random numbers.",
            lambda layer, d_model: answers_differ(layer, np.zeros((100_000, d_model))),
        ),
        Mistake("The answer is True for every layer.", lambda layer, d_model: True),
        Mistake("The answer is False for every layer.", lambda layer, d_model: False),
    ),
)
