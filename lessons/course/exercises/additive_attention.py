"""Exercise of lesson 15: the backward of additive attention."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.additive_attention import additive_attention_backward, additive_attention_forward


def additive_inputs(rng):
    for n_queries, n_keys, d_k, d_v in ((1, 2, 1, 2), (2, 3, 4, 2), (4, 2, 3, 5)):
        shapes = (n_queries, d_v), (n_queries, d_k), (n_keys, d_k), (n_keys, d_v), (d_k,)
        yield tuple(rng.standard_normal(shape) for shape in shapes)


def additive_backward(grad_y, q, k, v, w):
    return additive_attention_backward(grad_y, additive_attention_forward(q, k, v, w)[1])


def additive_with(
    slope=lambda hidden: 1.0 - hidden * hidden,
    mean=1.0,
    softmax=lambda weights: weights,
    factor=lambda w: w,
    of_w=np.tanh,
    over=np.sum,
    scale=lambda d_k: 1.0,
    of_softmax=-1,
):
    """The backward with another slope of tanh, scores that are scaled, another softmax, or without a factor."""

    def wrong(grad_y, q, k, v, w):
        summed = q[:, None] + k
        hidden = np.tanh(summed)
        weights = np.exp(scale(len(w)) * (hidden @ w))
        weights /= weights.sum(axis=of_softmax, keepdims=True)
        grad_weights = grad_y @ v.T
        grad_scores = softmax(weights) * (
            grad_weights - mean * (weights * grad_weights).sum(axis=of_softmax, keepdims=True)
        )
        grad_scores *= scale(len(w))
        grad_sum = grad_scores[..., None] * factor(w) * slope(hidden)
        grad_w = (grad_scores[..., None] * of_w(summed)).sum(axis=(0, 1))
        return over(grad_sum, axis=1), over(grad_sum, axis=0), weights.T @ grad_y, grad_w

    return wrong


ADDITIVE_BACKWARD = Exercise(
    "15_why_self_attention.additive_backward",
    additive_inputs,
    reference=additive_backward,
    tested="all four gradients at three sizes, against the engine",
    parts=("grad_q", "grad_k", "grad_v", "grad_w"),
    mistakes=(
        Mistake("The slope 1 - tanh^2 is missing in grad_q and grad_k.", additive_with(slope=np.ones_like)),
        Mistake("The slope of the tanh is 1 - tanh^2, not 1 - tanh.", additive_with(slope=lambda hidden: 1.0 - hidden)),
        Mistake(
            "The softmax is taken as if each weight depended on its own score alone: subtract the weighted mean.",
            additive_with(mean=0.0),
        ),
        Mistake("The factor of the weights is missing in the softmax's backward.", additive_with(softmax=np.ones_like)),
        Mistake(
            "The softmax's backward is missing: the scores got the gradient of the weights.",
            additive_with(softmax=np.ones_like, mean=0.0),
        ),
        Mistake(
            "The softmax runs over the keys of a query; here it runs over the queries.", additive_with(of_softmax=0)
        ),
        Mistake(
            "The scores are divided by the root of d_k; additive scores are not.",
            additive_with(scale=lambda d_k: d_k**-0.5),
        ),
        Mistake(
            "grad_w holds the slope of the tanh; w was multiplied by the tanh itself.",
            additive_with(of_w=lambda summed: 1.0 - np.tanh(summed) ** 2),
        ),
        Mistake("The factor w is missing in grad_q and grad_k.", additive_with(factor=np.ones_like)),
        Mistake(
            "grad_w is taken with q + k; w was multiplied by their tanh.", additive_with(of_w=lambda summed: summed)
        ),
        Mistake(
            "grad_q and grad_k are means: a query met every key, and a key every query, so sum.",
            additive_with(over=np.mean),
        ),
    ),
)
