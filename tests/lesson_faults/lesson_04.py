"""Planted faults of lesson 4: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_04 as right


def mask_that_leaks(lengths, max_length):
    mask = right.decoder_mask(lengths, max_length)
    mask[:, 0, 2] = True
    return mask


def causal(lengths, max_length):
    return np.tri(max_length, dtype=bool)[None].repeat(len(lengths), axis=0)


def backward_without_mean(grad_y, q, k, v, weights):
    grad_scores = weights * (grad_y @ v.T) / np.sqrt(k.shape[1])
    return grad_scores @ k, grad_scores.T @ q, weights.T @ grad_y


def plain_softmax(scores):
    """As in many first versions: no maximum, and NaN for a row without keys."""
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


def first_version(divide=lambda q, k: np.sqrt(q.shape[-1]), hide=lambda scores, mask: np.where(mask, scores, -np.inf)):
    return lambda q, k, mask: plain_softmax(hide(np.einsum("...td,...sd->...ts", q, k) / divide(q, k), mask))


def uniform_where_empty(q, k, mask):
    scores = np.where(mask, np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1]), -1e9)
    return plain_softmax(scores - scores.max(axis=-1, keepdims=True))


def weights_of_one_head(q, k, mask):
    scores = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    return np.nan_to_num(plain_softmax(scores - scores.max(axis=-1, keepdims=True)))


def backward_of_two_mistakes(grad_y, q, k, v, weights):
    grad_scores = weights * (grad_y @ v.swapaxes(-1, -2))
    return grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad_y


def unscaled(grad):
    return grad * np.sqrt(grad.shape[-1])


def stored_blocks(q, k, v, size):
    """Block by block, but every block's scores are kept to the end."""
    scores = np.hstack([q @ k[i : i + size].T / np.sqrt(q.shape[1]) for i in range(0, len(k), size)])
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials @ v / exponentials.sum(axis=1, keepdims=True)


def streaming_overflows(q, k, v, size):
    exponentials = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return exponentials @ v / exponentials.sum(axis=1, keepdims=True)


def streaming_mean(q, k, v, size):
    starts = range(0, len(k), size)
    return sum(right.streaming(q, k[i : i + size], v[i : i + size], size) for i in starts) / len(starts)


FAULTS = {
    "weights": {
        "scale 1 / sqrt(d_k) is missing": lambda q, k, mask: right.weights(q * np.sqrt(q.shape[-1]), k, mask),
        "mask is applied after the softmax": lambda q, k, mask: right.weights(q, k, np.ones_like(mask)) * mask,
        "the wrong way round": first_version(hide=lambda scores, mask: np.where(mask, -np.inf, scores)),
        "square root of the number of keys": first_version(divide=lambda q, k: len(np.moveaxis(k, -2, 0)) ** 0.5),
        "square root of the number of queries": with_inputs(
            right.weights, q=lambda q: q * (q.shape[-1] / q.shape[-2]) ** 0.5
        ),
        "Each row, one query, must": lambda q, k, mask: (lambda e: e / e.sum(axis=0))(
            np.where(mask, np.exp(np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1])), 0)
        ),
        "Exponentials overflow": first_version(),
        "has equal weights": uniform_where_empty,
        "holds NaN": lambda q, k, mask: np.where(mask.any(axis=-1, keepdims=True), right.weights(q, k, mask), np.nan),
        "k.T turns all axes round": weights_of_one_head,
        "It is transposed": with_result(right.weights, lambda weights: weights.swapaxes(-1, -2)),
        "100 times the right one": with_result(right.weights, lambda weights: 100 * weights),
    },
    "self_attention": {
        "d_model where d_k belongs": with_inputs(right.self_attention, w_q=lambda w: w * (w.shape[1] / len(w)) ** 0.5),
        "Queries and keys are exchanged": lambda x, w_q, w_k, w_v: right.self_attention(x, w_k, w_q, w_v),
        "weights are applied to x itself": lambda x, w_q, w_k, w_v: right.self_attention(x, w_q, w_k, np.eye(len(w_v))),
    },
    "decoder_mask": {
        "The future leaks from position 3 to 1": mask_that_leaks,
        "Padding lies on the wrong axis": lambda lengths, max_length: (
            causal(lengths, max_length) & (np.arange(max_length) < np.array(lengths)[:, None])[:, :, None]
        ),
        "Padding is not masked": causal,
        "The mask is strict": with_result(right.decoder_mask, lambda mask: np.tril(mask, k=-1)),
        "must be a boolean array": with_result(right.decoder_mask, lambda mask: mask.astype(float)),
    },
    "backward": {
        "The mean term of the softmax is missing": backward_without_mean,
        "mean term": backward_of_two_mistakes,
        "missing in grad_q and grad_k": with_result(
            right.backward, lambda grad_q, grad_k, grad_v: (unscaled(grad_q), unscaled(grad_k), grad_v)
        ),
        "Part 2 of the result: It is transposed": with_result(
            right.backward, lambda grad_q, grad_k, grad_v: (grad_q, grad_k, grad_v.swapaxes(-1, -2))
        ),
    },
    "streaming": {
        "The last block": lambda q, k, v, size: right.streaming(
            q, k[: len(k) // size * size], v[: len(k) // size * size], size
        ),
        "overflow": streaming_overflows,
        "the same weight": streaming_mean,
        "nothing is streamed": lambda q, k, v, size: right.streaming(q, k, v, len(k)),
        "Keep only one block's scores": stored_blocks,
    },
}
