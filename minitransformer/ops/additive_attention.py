"""Additive attention: the score is a small network of query and key  [Bahdanau et al. 2015]."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule
from minitransformer.ops.softmax import softmax_backward, softmax_forward


def additive_attention_weights(q: Array, k: Array, w: Array, *, mask: Array | None = None) -> tuple[Array, tuple]:
    """weights = softmax(scores),  scores_ts = w . tanh(q_t + k_s)      [Bahdanau et al. 2015, sec. A.1.2]

    q: (..., T, d_k)   k: (..., S, d_k)   w: (d_k,)   mask: boolean, broadcasts to (..., T, S), True = may attend
    weights: (..., T, S)
    """
    hidden = get_array_module(q).tanh(q[..., :, None, :] + k[..., None, :, :])  # (..., T, S, d_k)
    weights, saved_softmax = softmax_forward(hidden @ w, mask=mask)
    return weights, (hidden, saved_softmax)


def additive_attention_forward(
    q: Array, k: Array, v: Array, w: Array, *, mask: Array | None = None
) -> tuple[Array, tuple]:
    """y = weights v,  weights as in `additive_attention_weights`      [Bahdanau et al. 2015, eq. 5, 6]

    In the notation of Bahdanau et al. q = s W_a, k = h U_a and w = v_a.

    q: projected queries, (..., T, d_k)   k: projected keys, (..., S, d_k)   v: (..., S, d_v)   w: (d_k,)
    y: (..., T, d_v)   mask: boolean, broadcasts to (..., T, S), True = may attend
    """
    weights, (hidden, saved_softmax) = additive_attention_weights(q, k, w, mask=mask)
    return weights @ v, (v, w, weights, hidden, saved_softmax)


def additive_attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_v = weights^T grad_y,  grad_scores = softmax'(grad_y v^T),  hidden_ts = tanh(q_t + k_s)
    grad_w = sum_ts grad_scores_ts hidden_ts,  grad_sum_ts = grad_scores_ts w (1 - hidden_ts^2), of q_t + k_s
    grad_q_t = sum_s grad_sum_ts,  grad_k_s = sum_t grad_sum_ts"""
    v, w, weights, hidden, saved_softmax = saved
    grad_v = weights.swapaxes(-1, -2) @ grad_y  # (..., S, d_v)
    (grad_scores,) = softmax_backward(grad_y @ v.swapaxes(-1, -2), saved_softmax)  # (..., T, S)
    grad_w = grad_scores.reshape(-1) @ hidden.reshape(-1, len(w))  # (d_k,)
    grad_sum = hidden * hidden  # (..., T, S, d_k): the largest array here, so it is changed in place
    grad_sum -= 1.0
    grad_sum *= -w
    grad_sum *= grad_scores[..., None]
    return grad_sum.sum(axis=-2), grad_sum.sum(axis=-3), grad_v, grad_w


additive_attention = Rule("additive_attention", additive_attention_forward, additive_attention_backward)
