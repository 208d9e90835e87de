"""Solutions of the bug zoo: six layers fixed, three probes."""

import math

import numpy as np

from minitransformer.config import BOS, EOS, PAD
from minitransformer.optim import learning_rate


def softmax_gradient(grad_y, y):
    return y * (grad_y - (grad_y * y).sum(axis=-1, keepdims=True))


def schedule(parameters, gradients, step, d_model, warmup):
    step += 1  # one update, whatever the number of tensors
    rate = learning_rate(step, d_model, warmup)
    return [w - rate * g for w, g in zip(parameters, gradients, strict=True)], step


def still_drops(layer, d_model):
    x = np.random.default_rng(0).standard_normal((100_000, d_model))  # many numbers: one in 100,000 may be dropped
    return bool((layer(x) != layer(x)).any())


def padding_mask(scores, lengths):
    real = np.arange(scores.shape[-1]) < lengths[:, None]  # (B, S)
    scores = np.where(real[:, None, :], scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def norm_place(block, d_model):
    x = np.random.default_rng(0).standard_normal((3, d_model)) + 2.0
    if not np.allclose(block(x, lambda y: 0.0 * y), x, atol=1e-3):
        return "post"  # nothing was added, and yet something changed
    added, added_more = (block(x, lambda y, factor=factor: factor * y) - x for factor in (1.0, 7.0))
    return "branch" if np.allclose(added_more, added, atol=1e-3) else "pre"


def shared_masks(layer, shape, p_drop):
    sublayers = [lambda x, value=value: np.full(x.shape, value) for value in (1.0, 2.0, 4.0)]
    code = np.rint(layer(np.zeros(shape), sublayers) * (1.0 - p_drop)).astype(int)  # 0 to 7, three bits
    return len({(code & bit > 0).tobytes() for bit in (1, 2, 4)})


def scores(x, w_q, w_k, n_heads):
    length, d_model = x.shape
    d_k = d_model // n_heads
    q, k = ((x @ w).reshape(length, n_heads, d_k).swapaxes(0, 1) for w in (w_q, w_k))  # (H, T, d_k)
    return q @ k.swapaxes(-1, -2) / math.sqrt(d_k)


def log_probabilities(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def mean_loss(logits, targets):
    nll = -np.take_along_axis(log_probabilities(logits), targets[..., None], axis=-1)[..., 0]
    return nll[targets != PAD].mean()


def shifted_target(sequences):
    width = max(len(s) for s in sequences) + 1
    tgt_in, tgt_out = np.full((2, len(sequences), width), PAD)
    for b, s in enumerate(sequences):
        tgt_in[b, : len(s) + 1] = [BOS, *s]
        tgt_out[b, : len(s) + 1] = [*s, EOS]
    return tgt_in, tgt_out
