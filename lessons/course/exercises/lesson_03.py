"""Exercises of lesson 3: softmax, cross-entropy, label smoothing."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.config import PAD
from minitransformer.ops.cross_entropy import cross_entropy_backward, cross_entropy_forward
from minitransformer.ops.softmax import softmax_forward


def exponentials_over(exponentials, axis=-1):
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


# -- softmax ----------------------------------------------------------------------------------------------------------


def softmax_inputs(rng):
    yield (np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),)
    yield (rng.standard_normal((3, 3)),)
    yield (np.array([[1000.0, 999.0], [-3000.0, -2999.0]]),)
    yield (np.array([[0.0, -1.0], [-400.0, -401.0]]),)
    yield (np.array([[2000.0, 0.0, 0.0]]),)


SOFTMAX = Exercise(
    "03_softmax.softmax",
    softmax_inputs,
    reference=lambda z: softmax_forward(z)[0],
    tested="small logits, and rows from 2000 down to -3000, against the engine's softmax",
    mistakes=(
        Mistake(
            "Exponentials overflow: exp(1000) is inf, and inf / inf is nan. Take the largest logit of each row away.",
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


def batches(rng):
    """Logits and targets, some of them padding."""
    yield np.array([[0.0, 2.0, 1.0], [0.0, 1.0, 3.0], [1.0, 0.0, 0.0]]), np.array([1, 1, PAD])
    for n, n_words in ((3, 5), (8, 12)):
        targets = rng.integers(1, n_words, n)
        targets[-n // 3 :] = PAD
        yield 2 * rng.standard_normal((n, n_words)), targets


def perplexity_inputs(rng):
    yield from batches(rng)
    yield np.array([[0.0, 400.0, 405.0], [0.0, 905.0, 900.0]]), np.array([1, 1])


def nll_of(logits, targets):
    """-ln p of each target."""
    log_total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    return log_total - logits[np.arange(len(targets)), targets]


def over_real(function):
    """A mistake in which padding is left out as it should be."""
    return lambda logits, targets: function(nll_of(logits, targets)[targets != PAD])


PERPLEXITY = Exercise(
    "03_softmax.perplexity_of",
    perplexity_inputs,
    reference=over_real(lambda nll: float(np.exp(nll.mean()))),
    tested="batches with and without padding, and logits of several hundred",
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
    ),
)

# -- smoothed_targets -------------------------------------------------------------------------------------------------


def smoothed_inputs(rng):
    yield np.array([1, PAD]), 3, 0.3
    yield np.array([2, 1, 4, PAD, PAD]), 5, 0.1


def smoothed(targets, n_words, eps, *, target=None, other=None, padding=True, words=None):
    """q, with what each mistake puts in its places."""
    q = np.full((len(targets), n_words), eps / n_words if other is None else other)
    if words is not None:
        q[:, words] = 0.0
    q[np.arange(len(targets)), targets] = 1.0 - eps + eps / n_words if target is None else target
    if padding:
        q[targets == PAD] = 0.0
    return q


SMOOTHED_TARGETS = Exercise(
    "03_softmax.smoothed_targets",
    smoothed_inputs,
    reference=lambda targets, n_words, eps: smoothed(targets, n_words, eps),
    tested="two batches with padding, against q = (1 - eps) onehot + eps / V",
    mistakes=(
        Mistake(
            "The target gets 1 - eps and the others eps / (V - 1): the share goes to all V words, the target too.",
            lambda targets, n, eps: smoothed(targets, n, eps, target=1.0 - eps, other=eps / (n - 1)),
        ),
        Mistake(
            "The target gets 1 - eps only: its own part of the share, eps / V, is missing, and rows do not sum to one.",
            lambda targets, n, eps: smoothed(targets, n, eps, target=1.0 - eps),
        ),
        Mistake(
            "Padding is smoothed too: a row whose target is 0 must be 0 everywhere, or it trains the model.",
            lambda targets, n, eps: smoothed(targets, n, eps, padding=False),
        ),
        Mistake(
            "At padding only the target's entry is 0: eps / V is left in the rest of the row.",
            lambda targets, n, eps: (
                smoothed(targets, n, eps, padding=False) * ((targets != PAD)[:, None] | (np.arange(n) > 0))
            ),
        ),
        Mistake(
            "Each other word gets the whole of eps: the share is divided among all V.",
            lambda targets, n, eps: smoothed(targets, n, eps, target=1.0, other=eps),
        ),
        Mistake("The targets are not smoothed.", lambda targets, n, eps: smoothed(targets, n, 0.0)),
        Mistake(
            "Word 0 gets nothing in the rows of real words: eps / V goes to every word of the vocabulary.",
            lambda targets, n, eps: smoothed(targets, n, eps, words=0),
        ),
    ),
)

# -- loss_backward ----------------------------------------------------------------------------------------------------


def loss_inputs(rng):
    for (logits, targets), grad_loss, eps in zip(batches(rng), (2.0, 0.5, -1.5), (0.3, 0.1, 0.2), strict=True):
        yield grad_loss, logits, targets, eps


def loss_backward(grad_loss, logits, targets, eps, pad_id=PAD):
    _, saved = cross_entropy_forward(logits, targets=targets, label_smoothing=eps, pad_id=pad_id)
    return cross_entropy_backward(np.array(grad_loss), None, saved)[0]


def with_q(function):
    """p - q with another q."""

    def wrong(grad_loss, logits, targets, eps):
        gradient = softmax_forward(logits)[0] - function(targets, logits.shape[1], eps)
        return grad_loss * gradient * (targets != PAD)[:, None]

    return wrong


LOSS_BACKWARD = Exercise(
    "03_softmax.loss_backward",
    loss_inputs,
    reference=lambda grad_loss, logits, targets, eps: loss_backward(grad_loss, logits, targets, eps),
    tested="three batches with padding, three values of eps and of grad_loss, against the engine's backward",
    mistakes=(
        Mistake(
            "Too small by the batch size: the loss is a sum over tokens, and nothing is divided by N.",
            lambda g, logits, targets, eps: loss_backward(g, logits, targets, eps) / len(targets),
        ),
        Mistake(
            "Too small by the number of real tokens: the loss is a sum; the training loop divides, once.",
            lambda g, logits, targets, eps: loss_backward(g, logits, targets, eps) / (targets != PAD).sum(),
        ),
        Mistake(
            "Padding has a gradient: its rows must be 0.",
            lambda g, logits, targets, eps: loss_backward(g, logits, targets, eps, pad_id=-1),
        ),
        Mistake(
            "Padding's q is 0, but its p is left: the whole row must be 0.",
            lambda g, logits, targets, eps: g * (softmax_forward(logits)[0] - smoothed(targets, logits.shape[1], eps)),
        ),
        Mistake("The smoothing is missing.", lambda g, logits, targets, eps: loss_backward(g, logits, targets, 0.0)),
        Mistake("grad_loss is not used.", lambda g, logits, targets, eps: loss_backward(1.0, logits, targets, eps)),
        Mistake(
            "The target loses 1 instead of 1 - eps, on top of eps / V: q sums to more than one.",
            with_q(lambda targets, n, eps: smoothed(targets, n, eps, target=1.0 + eps / n)),
        ),
        Mistake(
            "The smoothing of the target itself is missing: q there is 1 - eps + eps / V.",
            with_q(lambda targets, n, eps: smoothed(targets, n, eps, target=1.0 - eps)),
        ),
    ),
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
    tested="models that are twice and four times too sure, and one that is not sure enough, with padding",
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

EXERCISES = (SOFTMAX, PERPLEXITY, SMOOTHED_TARGETS, LOSS_BACKWARD, TEMPERATURE)
