"""Lesson 3: smoothed targets, the loss that they make, and its backward."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.config import PAD
from minitransformer.ops.cross_entropy import cross_entropy_backward, cross_entropy_forward
from minitransformer.ops.softmax import log_softmax_forward, softmax_forward


def batches(rng):
    """Logits and targets, some of them padding."""
    yield np.array([[0.0, 2.0, 1.0], [0.0, 1.0, 3.0], [1.0, 0.0, 0.0]]), np.array([1, 1, PAD])
    for n, n_words in ((3, 5), (8, 12)):
        targets = rng.integers(1, n_words, n)
        targets[-n // 3 :] = PAD
        yield 2 * rng.standard_normal((n, n_words)), targets


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
            "Two things: the share eps goes to all V words, eps / V to each, the target too; and a row whose target is "
            "0 must be 0 everywhere.",
            lambda targets, n, eps: smoothed(targets, n, eps, target=1.0 - eps, other=eps / (n - 1), padding=False),
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
        Mistake(
            "The column of word 0 is 0; it is the rows of padding, whose target is 0, that must be.",
            lambda targets, n, eps: smoothed(targets, n, eps, padding=False) * (np.arange(n) > 0),
        ),
    ),
)

# -- smoothed_loss ----------------------------------------------------------------------------------------------------


def smoothed_loss_inputs(rng):
    for (logits, targets), eps in zip(batches(rng), (0.3, 0.1, 0.2), strict=True):
        yield logits, targets, eps
    yield np.array([[0.0, 900.0, -900.0], [0.0, 3.0, 1.0]]), np.array([2, 1]), 0.1
    yield np.array([[900.0, 905.0, 903.0]]), np.array([1]), 0.1


def smoothed_by(combine, log_of=lambda logits: log_softmax_forward(logits)[0], total=np.sum):
    """``combine(nll, sum of -ln p over the vocabulary, real, eps, vocabulary size)``, summed over the rows."""

    def loss(logits, targets, eps):
        log_p = log_of(logits)
        nll, real = -log_p[np.arange(len(targets)), targets], targets != PAD
        return float(total(combine(nll, -log_p.sum(axis=-1), real, eps, logits.shape[-1])))

    return loss


def right_loss(nll, every, real, eps, v):
    return ((1 - eps) * nll + eps / v * every) * real


def kept_finite(reference):
    """A property: a loss that is right at small logits must not be too small where the p of a target becomes 0."""

    def message(function, logits, targets, *rest):
        p = softmax_forward(logits)[0][np.arange(len(targets)), targets]
        if p[targets != PAD].min() > 0.0:
            return None
        small, got = function(logits / 1000, targets, *rest), function(logits, targets, *rest)
        is_right = np.allclose(small, reference(logits / 1000, targets, *rest), rtol=1e-3)
        return FLOOR if is_right and np.all(got < 0.99 * reference(logits, targets, *rest)) else None

    return message


FLOOR = (
    "A number is added to p, or p has a floor, so that its logarithm is finite. Where p became 0 the loss is then far "
    "too small: write ln p = z - ln sum e^z, from the logits."
)
OVERFLOW = "Exponentials overflow: exp(900) is inf. Subtract the largest logit of each row before exp."
ZERO_FIRST = "The logarithm is taken of a probability that became 0: write ln p = z - ln sum e^z, from the logits."


def engine_loss(logits, targets, eps):
    return float(cross_entropy_forward(logits, targets=targets, label_smoothing=eps)[0][0])


SMOOTHED_LOSS = Exercise(
    "03_softmax.smoothed_loss",
    smoothed_loss_inputs,
    reference=engine_loss,
    tested="batches with and without padding, three values of eps and logits of 900, against the engine's "
    "cross_entropy",
    mistakes=(
        Mistake(
            "The smoothing runs over padding: its share eps / V of every word is asked for at positions without one.",
            smoothed_by(lambda nll, every, real, eps, v: (1 - eps) * nll * real + eps / v * every),
        ),
        Mistake(
            "Padding counts in both parts: multiply each position's loss by whether it is real.",
            smoothed_by(lambda nll, every, real, eps, v: (1 - eps) * nll + eps / v * every),
        ),
        Mistake(
            "The smoothing is missing: this is the plain cross-entropy.",
            smoothed_by(lambda nll, every, real, eps, v: nll * real),
        ),
        Mistake(
            "The target keeps its full share: q must sum to one, (1 - eps) + V * eps / V.",
            smoothed_by(lambda nll, every, real, eps, v: (nll + eps / v * every) * real),
        ),
        Mistake(
            "The target gets 1 - eps alone. Like every word it gets eps / V too: q must sum to one.",
            smoothed_by(lambda nll, every, real, eps, v: ((1 - eps) * nll + eps / v * (every - nll)) * real),
        ),
        Mistake(
            "eps is shared among the V - 1 other words; sec. 5.4 cites the form that gives all V words eps / V.",
            smoothed_by(lambda nll, every, real, eps, v: ((1 - eps) * nll + eps / (v - 1) * (every - nll)) * real),
        ),
        Mistake(
            "This is the mean over all positions; the loss is a sum over tokens, and the training loop divides, once.",
            smoothed_by(right_loss, total=np.mean),
        ),
        Mistake(
            "This is the mean over the real tokens; the loss is their sum, and the training loop divides, once.",
            lambda logits, targets, eps: smoothed_by(right_loss)(logits, targets, eps) / (targets != PAD).sum(),
        ),
        Mistake(ZERO_FIRST, smoothed_by(right_loss, log_of=lambda logits: np.log(softmax_forward(logits)[0]))),
        Mistake(
            OVERFLOW,
            smoothed_by(right_loss, log_of=lambda z: z - np.log(np.exp(z).sum(axis=-1, keepdims=True))),
        ),
    ),
    properties=(kept_finite(engine_loss),),
)

# -- loss_backward ----------------------------------------------------------------------------------------------------


def loss_inputs(rng):
    for (logits, targets), grad_loss, eps in zip(batches(rng), (2.0, 0.5, -1.5), (0.3, 0.1, 0.2), strict=True):
        yield grad_loss, logits, targets, eps
    yield 1.0, np.array([[900.0, 905.0, 903.0]]), np.array([1]), 0.1


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
    tested="three batches with padding, three values of eps and of grad_loss, and logits of 900, against the engine's "
    "backward",
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
        Mistake(
            "This is p - q alone: grad_loss is a factor, and at padding, where q is 0, p must go too.",
            lambda g, logits, targets, eps: softmax_forward(logits)[0] - smoothed(targets, logits.shape[1], eps),
        ),
        Mistake("The smoothing is missing.", lambda g, logits, targets, eps: loss_backward(g, logits, targets, 0.0)),
        Mistake(
            OVERFLOW,
            lambda g, logits, targets, eps: loss_backward(g, logits, targets, eps) + 0 * np.exp(logits),
        ),
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
