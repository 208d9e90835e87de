"""Planted faults of lesson 3: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_03 as right


def softmax_that_overflows(z):
    e = np.exp(z)
    return e / e.sum(axis=1)[:, None]


def softmax_of_one_largest(z):
    e = np.exp(z - np.amax(z))
    return e / e.sum(axis=1)[:, None]


def perplexity_with_padding(logits, targets):
    p = right.log_probabilities(logits)
    return np.exp(-sum(row[t] for row, t in zip(p, targets, strict=True)) / len(targets))


def smoothed_over_the_others(targets, n_words, eps):
    one_hot = np.eye(n_words)[targets]
    return ((1 - eps) * one_hot + (1 - one_hot) * eps / (n_words - 1)) * (targets > 0)[:, None]


def smoothed_padding(targets, n_words, eps):
    return (1 - eps) * np.eye(n_words)[targets] + eps / n_words


def smoothed_target_short(targets, n_words, eps):
    q = right.smoothed_targets(targets, n_words, eps)
    return np.minimum(q, 1 - eps)


def backward_of_a_mean(grad_loss, logits, targets, eps):
    return right.loss_backward(grad_loss, logits, targets, eps) / logits.shape[0]


def backward_with_padding(grad_loss, logits, targets, eps):
    return grad_loss * (right.softmax(logits) - smoothed_padding(targets, logits.shape[1], eps))


def temperature_with_padding(logits, targets):
    betas = np.geomspace(0.1, 10, 20001)
    wanted = logits[np.arange(len(targets)), targets].sum()
    nll = [np.log(np.exp(beta * logits).sum(axis=1)).sum() - beta * wanted for beta in betas]
    return 1 / betas[np.argmin(nll)]


FAULTS = {
    "softmax": [
        (softmax_that_overflows, "Exponentials overflow"),
        (softmax_of_one_largest, "Each row has its own largest"),
        (lambda z: right.softmax(z.T).T, "over the first axis"),
        (lambda z: np.exp(z - z.max(axis=1)[:, None]), "division by the sum is missing"),
    ],
    "perplexity_of": [
        (perplexity_with_padding, "Padding counts as a word"),
        (
            lambda logits, targets: right.perplexity_of(logits, targets) ** np.mean(targets != 0),
            "divided by all positions",
        ),
        (lambda logits, targets: 2 ** np.log(right.perplexity_of(logits, targets)), "The base is 2"),
        (lambda logits, targets: np.log(right.perplexity_of(logits, targets)), "mean loss in nats"),
    ],
    "smoothed_targets": [
        (smoothed_over_the_others, "eps / (V - 1)"),
        (smoothed_padding, "Padding is smoothed too"),
        (smoothed_target_short, "its own part of the share"),
        (lambda targets, n_words, eps: np.eye(n_words)[targets] * (targets > 0)[:, None], "not smoothed"),
    ],
    "loss_backward": [
        (backward_of_a_mean, "Too small by the batch size"),
        (backward_with_padding, "Padding has a gradient"),
        (
            lambda grad_loss, logits, targets, eps: right.loss_backward(grad_loss, logits, targets, 0.0),
            "The smoothing is missing",
        ),
        (lambda grad_loss, logits, targets, eps: -right.loss_backward(grad_loss, logits, targets, eps), "wrong sign"),
        (
            lambda grad_loss, logits, targets, eps: right.loss_backward(1.0, logits, targets, eps),
            "grad_loss is not used",
        ),
    ],
    "temperature": [
        (lambda logits, targets: 1 / right.temperature(logits, targets), "This is beta"),
        (temperature_with_padding, "Padding counts as a word"),
        (lambda logits, targets: 1, "nothing was searched"),
    ],
}
