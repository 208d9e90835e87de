"""Planted faults of lesson 3: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_03 as right

FAULTS = {
    "softmax": {
        "Exponentials overflow": "np.exp(z - z.max(axis=-1, keepdims=True)) -> np.exp(z)",
        "Each row has its own largest": "z.max(axis=-1, keepdims=True) -> z.max()",
        "The smallest logit": "z.max -> z.min",
        "over the first axis": lambda z: right.softmax(z.T).T,
        "division by the sum is missing": lambda z: np.exp(z - z.max(axis=1)[:, None]),
    },
    "perplexity_of": {
        "Padding counts as a word": "[targets != 0] -> ",
        "divided by all positions": lambda z, targets: right.perplexity_of(z, targets) ** np.mean(targets != 0),
        "The base is 2": with_result(right.perplexity_of, lambda ppl: 2 ** np.log(ppl)),
        "mean loss in nats": with_result(right.perplexity_of, np.log),
        "of a probability that became 0": "log_probabilities(logits) -> np.log(softmax(logits))",
        "A number is added to p": "log_probabilities(logits) -> np.log(softmax(logits) + 1e-12)",
    },
    "smoothed_targets": {
        "eps / (V - 1)": ("(1.0 - eps) -> (1.0 - eps - eps / (n_words - 1))", "/ n_words -> / (n_words - 1)"),
        "Padding is smoothed too": "q * (targets != 0)[:, None] -> q",
        "its own part of the share": lambda *inputs: np.minimum(right.smoothed_targets(*inputs), 1 - inputs[-1]),
        "it is the rows of padding": "(targets != 0)[:, None] -> (np.arange(n_words) != 0)",
        "not smoothed": lambda targets, n_words, eps: np.eye(n_words)[targets] * (targets > 0)[:, None],
    },
    "smoothed_loss": {
        "of a probability that became 0": "log_probabilities(logits) -> np.log(softmax(logits))",
        "or p has a floor": "log_probabilities(logits) -> np.log(np.maximum(softmax(logits), 1e-9))",
        "The smoothing runs over padding": (
            "smoothed_targets(targets, logits.shape[1], eps) -> (1 - eps) * np.eye(logits.shape[1])[targets]",
            " * log_ ->  * (targets != 0)[:, None] * log_",
            "(logits)).sum() -> (logits)).sum() - eps * log_probabilities(logits).mean(axis=1).sum()",
        ),
        "mean over the real tokens": "sum() -> sum() / np.count_nonzero(targets)",
        "The smoothing is missing": with_inputs(right.smoothed_loss, eps=lambda eps: 0.0),
    },
    "loss_backward": {
        "Too small by the batch size": with_result(right.loss_backward, lambda grad: grad / len(grad)),
        "The smoothing is missing": with_inputs(right.loss_backward, eps=lambda eps: 0.0),
        "This is p - q alone": "grad_loss * real *  -> ",
        "exp(900) is inf": "softmax(logits) -> np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)",
        "wrong sign": with_result(right.loss_backward, lambda grad: -grad),
        "grad_loss is not used": with_inputs(right.loss_backward, grad_loss=lambda grad_loss: 1.0),
    },
    "temperature": {
        "This is beta": with_result(right.temperature, lambda found: 1 / found),
        "Padding counts as a word": "logits[targets != 0], targets[targets != 0] -> logits, targets",
        "nothing was searched": lambda logits, targets: 1,
    },
}
