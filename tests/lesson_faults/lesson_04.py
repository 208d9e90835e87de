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


def unscaled(grad):
    return grad * np.sqrt(grad.shape[1])


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
        "transposed": with_result(right.weights, np.transpose),
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
        "missing in grad_q and grad_k": with_result(
            right.backward, lambda grad_q, grad_k, grad_v: (unscaled(grad_q), unscaled(grad_k), grad_v)
        ),
        "transposed": with_result(right.backward, lambda grad_q, grad_k, grad_v: (grad_q, grad_k, grad_v.T)),
    },
    "streaming": {
        "The last block": lambda q, k, v, size: right.streaming(
            q, k[: len(k) // size * size], v[: len(k) // size * size], size
        ),
        "overflow": streaming_overflows,
        "the same weight": streaming_mean,
    },
}
