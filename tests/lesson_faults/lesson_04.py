"""Planted faults of lesson 4: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_04 as right


def mask_that_leaks(lengths, max_length):
    mask = right.decoder_mask(lengths, max_length)
    mask[:, 0, 2] = True
    return mask


def stored_blocks(q, k, v, size):
    """Block by block, but every block's scores are kept to the end."""
    scores = np.hstack([q @ k[i : i + size].T / np.sqrt(q.shape[1]) for i in range(0, len(k), size)])
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials @ v / exponentials.sum(axis=1, keepdims=True)


FAULTS = {
    "weights": {
        "scale 1 / sqrt(d_k) is missing": lambda q, k, mask: right.weights(q * np.sqrt(q.shape[-1]), k, mask),
        "mask is applied after the softmax": lambda q, k, mask: right.weights(q, k, np.ones_like(mask)) * mask,
        "the wrong way round": "mask, scores, -np.inf -> mask, -np.inf, scores",
        "square root of the number of keys": "q.shape[-1]) -> k.shape[-2])",
        "square root of the number of queries": "q.shape[-1]) -> q.shape[-2])",
        "Each row, one query, must": lambda q, k, mask: (lambda e: e / e.sum(axis=0))(
            np.where(mask, np.exp(np.einsum("...td,...sd->...ts", q, k) / np.sqrt(q.shape[-1])), 0)
        ),
        "Exponentials overflow": (
            "np.where(largest == -np.inf, 0.0, largest) -> 0.0",
            "np.where(total == 0.0, 1.0, total) -> total",
        ),
        "exp(800) is inf": (
            "np.where(mask, scores, -np.inf) -> scores",
            "np.exp(scores - np.where(largest == -np.inf, 0.0, largest)) -> mask * np.exp(scores)",
            "np.where(total == 0.0, 1.0, total) -> total",
        ),
        "may be a hidden one": (
            "np.where(mask, scores, -np.inf) -> scores",
            "np.exp(scores -  -> mask * np.exp(scores - ",
        ),
        "Each row has its own largest": "scores.max(axis=-1, keepdims=True) -> scores.max()",
        "has equal weights": "-np.inf) -> -1e9)",
        "as without a mask": "np.where(mask, scores, -np.inf) -> scores + np.where(mask, 0.0, -1e9)",
        "holds NaN": lambda q, k, mask: np.where(mask.any(axis=-1, keepdims=True), right.weights(q, k, mask), np.nan),
        "k.T reverses all axes": "k.swapaxes(-1, -2) -> k.T",
        "d_k is the last axis of q": "q.shape[-1]) -> q.shape[1])",
        "It is transposed": with_result(right.weights, lambda weights: weights.swapaxes(-1, -2)),
        "100 times the right one": with_result(right.weights, lambda weights: 100 * weights),
    },
    "self_attention": {
        "d_model where d_k belongs": with_inputs(right.self_attention, w_q=lambda w: w * (w.shape[1] / len(w)) ** 0.5),
        "Queries and keys are exchanged": lambda x, w_q, w_k, w_v: right.self_attention(x, w_k, w_q, w_v),
        "the number of words": "x @ w_q -> x @ w_q * math.sqrt(w_q.shape[1] / len(x))",
        "d_v, the width of a value": "x @ w_q -> x @ w_q * math.sqrt(w_q.shape[1] / w_v.shape[1])",
        "Each row, one query, must": ("weights(q, k, -> weights(k, q,", "bool)) @ v -> bool)).T @ v"),
        "lost their axis": (
            "return -> e = np.exp(q @ k.T / math.sqrt(q.shape[1]))\n    return",
            "weights(q, k, np.ones((len(x), len(x)), dtype=bool)) -> e / e.sum(axis=1)",
        ),
        "pass True": "np.ones((len(x), len(x)), dtype=bool) -> None",
        "weights are applied to x itself": lambda x, w_q, w_k, w_v: right.self_attention(x, w_q, w_k, np.eye(len(w_v))),
    },
    "decoder_mask": {
        "The future leaks from position 3 to 1": mask_that_leaks,
        "Padding lies on the wrong axis": "real[:, None, :] -> real[:, :, None]",
        "Padding is not masked": "< lengths -> < 99 * lengths",
        "The mask is strict": with_result(right.decoder_mask, lambda mask: np.tril(mask, k=-1)),
        "must be a boolean array": with_result(right.decoder_mask, lambda mask: mask.astype(float)),
    },
    "backward": {
        "The mean term of the softmax is missing": "(grad_weights - mean) -> grad_weights",
        "mean term": "(grad_weights - mean) / math.sqrt(q.shape[-1]) -> grad_weights",
        "One sum over the whole array": "sum(axis=-1, keepdims=True) -> sum()",
        "are multiplied by sqrt(d_k)": "/ math.sqrt(q.shape[-1]) -> * math.sqrt(q.shape[-1])",
        "grad_v is right; grad_q and grad_k are not": ("@ k, -> @ k + 0.3,", "@ q, -> @ q + 0.4,"),
        "d_k is the last axis of q": "math.sqrt(q.shape[-1]) -> math.sqrt(q.shape[1])",
        "missing in grad_q and grad_k": " / math.sqrt(q.shape[-1]) -> ",
        "grad_q and grad_k are right; grad_v is not. grad_v: It is transposed": (
            "@ q, grad_v -> @ q, grad_v.swapaxes(-1, -2)"
        ),
    },
    "streaming": {
        "The last block": "len(k), size -> len(k) - size + 1, size",
        "overflow": "np.maximum(largest, scores.max(axis=-1, keepdims=True)) -> 0.0 * total",
        "scale 1 / sqrt(d_k) is missing": " / math.sqrt(q.shape[-1]) -> ",
        "nothing is streamed": lambda q, k, v, size: right.streaming(q, k, v, len(k)),
        "Keep only one block's scores": stored_blocks,
    },
}
