"""Exercises of lesson 3: softmax, cross-entropy, label smoothing."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.losses import LOSS_BACKWARD, SMOOTHED_LOSS, SMOOTHED_TARGETS, ZERO_FIRST, batches, kept_finite
from minitransformer.config import PAD
from minitransformer.ops.softmax import softmax_forward


def exponentials_over(exponentials, axis=-1):
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


# -- softmax ----------------------------------------------------------------------------------------------------------


def softmax_inputs(rng):
    yield (np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),)
    yield (rng.standard_normal((3, 3)),)
    yield (np.array([[1000.0, 999.0], [-3000.0, -2999.0]]),)
    yield (np.array([[0.0, -1.0], [-400.0, -401.0]]),)
    yield (np.array([[2000.0, 0.0, 0.0], [800.0, 0.0, 0.0]]),)


SOFTMAX = Exercise(
    "03_softmax.softmax",
    softmax_inputs,
    reference=lambda z: softmax_forward(z)[0],
    tested="small logits, and rows from 2000 down to -3000, against the engine's softmax",
    mistakes=(
        Mistake(
            "Exponentials overflow: exp(1000) is inf, and inf / inf is nan. Subtract the largest logit of each row.",
            lambda z: exponentials_over(np.exp(z)),
        ),
        Mistake(
            "The largest logit of the whole array is subtracted: in a row far below it every exponential is 0, and "
            "0 / 0 is nan. Each row has its own largest.",
            lambda z: exponentials_over(np.exp(z - z.max())),
        ),
        Mistake(
            "The largest absolute value is subtracted: with negative logits every exponential is 0, and 0 / 0 is nan.",
            lambda z: exponentials_over(np.exp(z - np.abs(z).max(axis=-1, keepdims=True))),
        ),
        Mistake(
            "The mean is subtracted, not the largest logit: the exponent may still be large, and exp overflows.",
            lambda z: exponentials_over(np.exp(z - z.mean(axis=-1, keepdims=True))),
        ),
        Mistake(
            "The smallest logit is subtracted, not the largest: the exponent may still be large, and exp overflows.",
            lambda z: exponentials_over(np.exp(z - z.min(axis=-1, keepdims=True))),
        ),
        Mistake(
            "The softmax runs over the first axis: columns sum to one. Each row, one position, must.",
            lambda z: exponentials_over(np.exp(z - z.max(axis=0, keepdims=True)), axis=0),
        ),
        Mistake(
            "One sum for the whole array: each row must sum to one.",
            lambda z: exponentials_over(np.exp(z - z.max()), axis=None),
        ),
        Mistake(
            "This is the logarithm of the softmax: return its exponential.",
            lambda z: (
                z - z.max(-1, keepdims=True) - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True))
            ),
        ),
        Mistake(
            "The division by the sum is missing: each row must sum to one.",
            lambda z: np.exp(z - z.max(axis=-1, keepdims=True)),
        ),
    ),
)

# -- perplexity_of ----------------------------------------------------------------------------------------------------


def perplexity_inputs(rng):
    yield from batches(rng)
    yield np.array([[0.0, 400.0, 405.0], [0.0, 905.0, 900.0]]), np.array([1, 1])
    yield np.array([[0.0, 0.0, 800.0], [0.0, 0.0, 800.0]]), np.array([1, 2])  # p of the first target rounds to 0


def nll_of(logits, targets):
    """-ln p of each target."""
    log_total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    return log_total - logits[np.arange(len(targets)), targets]


def over_real(function):
    """A mistake in which padding is left out as it should be."""
    return lambda logits, targets: function(nll_of(logits, targets)[targets != PAD])


def from_probabilities(logits, targets):
    p = softmax_forward(logits)[0][np.arange(len(targets)), targets]
    return float(np.exp(-np.log(p[targets != PAD]).mean()))


PERPLEXITY = Exercise(
    "03_softmax.perplexity_of",
    perplexity_inputs,
    reference=over_real(lambda nll: float(np.exp(nll.mean()))),
    tested="batches with and without padding, logits of several hundred, and targets 800 below the best",
    mistakes=(
        Mistake(
            "Padding counts as a word: leave out the positions whose target is 0.",
            lambda logits, targets: float(np.exp(nll_of(logits, targets).mean())),
        ),
        Mistake(
            "The sum leaves padding out, but it is divided by all positions: divide by the real tokens.",
            lambda logits, targets: float(np.exp(nll_of(logits, targets)[targets != PAD].sum() / len(targets))),
        ),
        Mistake(
            "The exponential is inside the mean: perplexity is exp of the mean, not the mean of 1 / p.",
            over_real(lambda nll: float(np.exp(nll).mean())),
        ),
        Mistake(
            "This is the mean loss in nats; perplexity is its exponential.", over_real(lambda nll: float(nll.mean()))
        ),
        Mistake(
            "The losses are summed, not averaged, before the exponential.",
            over_real(lambda nll: float(np.exp(nll.sum()))),
        ),
        Mistake("The sign is wrong: this is 1 / perplexity.", over_real(lambda nll: float(np.exp(-nll.mean())))),
        Mistake(
            "The base is 2, but the loss is in nats: exp and ln belong together.",
            over_real(lambda nll: float(2 ** nll.mean())),
        ),
        Mistake(ZERO_FIRST, from_probabilities),
    ),
    properties=(kept_finite(over_real(lambda nll: float(np.exp(nll.mean())))),),
)

# -- temperature ------------------------------------------------------------------------------------------------------


def temperature_inputs(rng):
    """Words drawn from softmax(z), and a model that gives sharper * z: T is near sharper."""
    for sharper, n in ((2.0, 60), (0.5, 80), (4.0, 100)):
        z = 1.5 * rng.standard_normal((n, 6))
        targets = np.array([rng.choice(np.arange(1, 6), p=exponentials_over(np.exp(row[1:]))) for row in z])
        z[:, 0] = -1.0
        padding = rng.random(n) < 0.15
        targets[padding] = PAD
        yield sharper * z, targets


def best_beta(logits, targets):
    """Where the slope of nll by beta, sum(E_p[z] - z_target), is zero."""
    low, high = 0.01, 100.0
    for _ in range(60):
        beta = np.sqrt(low * high)
        slope = ((softmax_forward(beta * logits)[0] * logits).sum(-1) - logits[np.arange(len(targets)), targets]).sum()
        low, high = (beta, high) if slope < 0 else (low, beta)
    return float(beta)


def best_beta_of_real(logits, targets):
    return best_beta(logits[targets != PAD], targets[targets != PAD])


TEMPERATURE = Exercise(
    "03_softmax.temperature",
    temperature_inputs,
    reference=lambda logits, targets: 1.0 / best_beta_of_real(logits, targets),
    tested="models that are two and four times too sure, and one that is not sure enough, with padding",
    mistakes=(
        Mistake("This is beta = 1 / T: logits are divided by T.", best_beta_of_real),
        Mistake(
            "Padding counts as a word: its logit is low, so the model seems to be wrong there.",
            lambda logits, targets: 1.0 / best_beta(logits, targets),
        ),
        Mistake("T is 1 for every model: nothing was searched.", lambda logits, targets: 1.0),
        Mistake(
            "T is the spread of the logits: a sure model may be right to be sure. Ask the targets.",
            lambda logits, targets: float(logits[targets != PAD].std()),
        ),
    ),
    rtol=1e-3,
    seconds=20.0,
)

EXERCISES = (SOFTMAX, PERPLEXITY, SMOOTHED_TARGETS, SMOOTHED_LOSS, LOSS_BACKWARD, TEMPERATURE)
