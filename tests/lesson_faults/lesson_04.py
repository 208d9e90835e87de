"""Planted faults of lesson 4: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_04 as right


def softmax_over(scores, axis=-1):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def mask_that_leaks(lengths, max_length):
    mask = right.decoder_mask(lengths, max_length)
    mask[:, 0, 2] = True
    return mask


def mask_of_queries(lengths, max_length):
    mask = np.tri(max_length, dtype=bool)[None].repeat(len(lengths), axis=0)
    for b, length in enumerate(lengths):
        mask[b, length:] = False
    return mask


def backward_without_mean(grad_y, q, k, v, weights):
    grad_scores = weights * (grad_y @ v.T) / np.sqrt(k.shape[1])
    return grad_scores @ k, grad_scores.T @ q, weights.T @ grad_y


def backward_unscaled(grad_y, q, k, v, weights):
    grad_q, grad_k, grad_v = right.backward(grad_y, q, k, v, weights)
    return grad_q * np.sqrt(q.shape[1]), grad_k * np.sqrt(q.shape[1]), grad_v


def backward_value_transposed(grad_y, q, k, v, weights):
    grad_q, grad_k, grad_v = right.backward(grad_y, q, k, v, weights)
    return grad_q, grad_k, grad_v.T


def streaming_overflows(q, k, v, size):
    exponentials = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return exponentials @ v / exponentials.sum(axis=1, keepdims=True)


def streaming_mean(q, k, v, size):
    starts = range(0, len(k), size)
    return sum(right.streaming(q, k[i : i + size], v[i : i + size], size) for i in starts) / len(starts)


FAULTS = {
    "weights": [
        (lambda q, k, mask: right.weights(q * np.sqrt(q.shape[-1]), k, mask), "scale 1 / sqrt(d_k) is missing"),
        (
            lambda q, k, mask: np.where(mask, softmax_over(q @ k.T / np.sqrt(k.shape[-1])), 0.0),
            "mask is applied after the softmax",
        ),
        (lambda q, k, mask: right.weights(q, k, mask).T, "transposed"),
        (lambda q, k, mask: 100 * right.weights(q, k, mask), "100 times the right one"),
    ],
    "self_attention": [
        (
            lambda x, w_q, w_k, w_v: softmax_over((x @ w_q) @ (x @ w_k).T / x.shape[-1] ** 0.5) @ x @ w_v,
            "d_model where d_k belongs",
        ),
        (
            lambda x, w_q, w_k, w_v: softmax_over((x @ w_k) @ (x @ w_q).T / w_q.shape[-1] ** 0.5) @ x @ w_v,
            "Queries and keys are exchanged",
        ),
        (
            lambda x, w_q, w_k, w_v: right.self_attention(x, w_q, w_k, np.eye(len(w_v))),
            "weights are applied to x itself",
        ),
    ],
    "decoder_mask": [
        (mask_that_leaks, "The future leaks from position 3 to 1"),
        (mask_of_queries, "Padding lies on the wrong axis"),
        (
            lambda lengths, max_length: np.tri(max_length, dtype=bool)[None].repeat(len(lengths), axis=0),
            "Padding is not masked",
        ),
        (
            lambda lengths, max_length: right.decoder_mask(lengths, max_length) & np.tri(max_length, k=-1, dtype=bool),
            "The mask is strict",
        ),
        (lambda lengths, max_length: right.decoder_mask(lengths, max_length).astype(float), "must be a boolean array"),
    ],
    "backward": [
        (backward_without_mean, "The mean term of the softmax is missing"),
        (backward_unscaled, "missing in grad_q and grad_k"),
        (backward_value_transposed, "transposed"),
    ],
    "streaming": [
        (
            lambda q, k, v, size: right.streaming(q, k[: len(k) // size * size], v[: len(k) // size * size], size),
            "The last block",
        ),
        (streaming_overflows, "overflow"),
        (streaming_mean, "the same weight"),
    ],
}
