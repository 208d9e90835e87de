"""Planted faults of lesson 3: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_03 as right


def over_rows(e):
    return e / e.sum(axis=1)[:, None]


def smoothed_over_the_others(targets, n_words, eps):
    one_hot = np.eye(n_words)[targets]
    return ((1 - eps) * one_hot + (1 - one_hot) * eps / (n_words - 1)) * (targets > 0)[:, None]


def smoothed_padding(targets, n_words, eps):
    return (1 - eps) * np.eye(n_words)[targets] + eps / n_words


def temperature_with_padding(logits, targets):
    betas = np.geomspace(0.1, 10, 20001)
    wanted = logits[np.arange(len(targets)), targets].sum()
    nll = [np.log(np.exp(beta * logits).sum(axis=1)).sum() - beta * wanted for beta in betas]
    return 1 / betas[np.argmin(nll)]


FAULTS = {
    "softmax": {
        "Exponentials overflow": lambda z: over_rows(np.exp(z)),
        "Each row has its own largest": lambda z: over_rows(np.exp(z - np.amax(z))),
        "over the first axis": lambda z: right.softmax(z.T).T,
        "division by the sum is missing": lambda z: np.exp(z - z.max(axis=1)[:, None]),
    },
    "perplexity_of": {
        "Padding counts as a word": lambda logits, targets: np.exp(
            -np.take_along_axis(right.log_probabilities(logits), targets[:, None], axis=1).mean()
        ),
        "divided by all positions": lambda z, targets: right.perplexity_of(z, targets) ** np.mean(targets != 0),
        "The base is 2": with_result(right.perplexity_of, lambda ppl: 2 ** np.log(ppl)),
        "mean loss in nats": with_result(right.perplexity_of, np.log),
    },
    "smoothed_targets": {
        "eps / (V - 1)": smoothed_over_the_others,
        "Padding is smoothed too": smoothed_padding,
        "its own part of the share": lambda *inputs: np.minimum(right.smoothed_targets(*inputs), 1 - inputs[-1]),
        "not smoothed": lambda targets, n_words, eps: np.eye(n_words)[targets] * (targets > 0)[:, None],
    },
    "smoothed_loss": {
        "of a probability that became 0": lambda logits, targets, eps: (
            -(right.smoothed_targets(targets, logits.shape[1], eps) * np.log(right.softmax(logits))).sum()
        ),
        "Padding counts in both parts": lambda logits, targets, eps: (
            -(smoothed_padding(targets, logits.shape[1], eps) * right.log_probabilities(logits)).sum()
        ),
        "mean over the real tokens": lambda logits, targets, eps: (
            right.smoothed_loss(logits, targets, eps) / np.count_nonzero(targets)
        ),
        "The smoothing is missing": with_inputs(right.smoothed_loss, eps=lambda eps: 0.0),
        "among the V - 1": lambda logits, targets, eps: (
            -(smoothed_over_the_others(targets, logits.shape[1], eps) * right.log_probabilities(logits)).sum()
        ),
    },
    "loss_backward": {
        "Too small by the batch size": with_result(right.loss_backward, lambda grad: grad / len(grad)),
        "Padding has a gradient": lambda grad_loss, logits, targets, eps: (
            grad_loss * (right.softmax(logits) - smoothed_padding(targets, logits.shape[1], eps))
        ),
        "The smoothing is missing": with_inputs(right.loss_backward, eps=lambda eps: 0.0),
        "wrong sign": with_result(right.loss_backward, lambda grad: -grad),
        "grad_loss is not used": with_inputs(right.loss_backward, grad_loss=lambda grad_loss: 1.0),
    },
    "temperature": {
        "This is beta": with_result(right.temperature, lambda found: 1 / found),
        "Padding counts as a word": temperature_with_padding,
        "nothing was searched": lambda logits, targets: 1,
    },
}
