"""The paper's formulas once more, number by number in plain Python: slow, and independent of the rules they check."""

import math

import numpy as np


def softmax_row(scores, allowed) -> list[float]:
    """exp(s_j) / sum of exp over the allowed positions; all zero if there is none."""
    powers = [math.exp(s) if ok else 0.0 for s, ok in zip(scores, allowed, strict=True)]
    total = math.fsum(powers)
    return [power / total if total else 0.0 for power in powers]


def attention(q, k, v, mask) -> np.ndarray:
    """One head: q (T, d_k), k (S, d_k), v (S, d_v), mask (T, S)  [eq. 1]."""
    rows = []
    for i in range(len(q)):
        scores = [math.fsum(a * b for a, b in zip(q[i], key, strict=True)) / math.sqrt(len(key)) for key in k]
        weights = softmax_row(scores, mask[i])
        rows.append([math.fsum(w * value[c] for w, value in zip(weights, v, strict=True)) for c in range(v.shape[1])])
    return np.array(rows)


def layer_norm_row(x, gamma, beta, eps) -> list[float]:
    mean = math.fsum(x) / len(x)
    variance = math.fsum((value - mean) ** 2 for value in x) / len(x)
    std = math.sqrt(variance + eps)
    return [g * (value - mean) / std + b for value, g, b in zip(x, gamma, beta, strict=True)]


def feed_forward_row(x, w1, b1, w2, b2) -> list[float]:
    """max(0, x W1 + b1) W2 + b2 for one position  [eq. 2]."""
    hidden = [max(0.0, math.fsum(x[i] * w1[i, j] for i in range(len(x))) + b1[j]) for j in range(len(b1))]
    return [math.fsum(hidden[j] * w2[j, c] for j in range(len(hidden))) + b2[c] for c in range(len(b2))]


def smoothed_loss(logits, targets, label_smoothing: float, pad_id: int) -> float:
    """sum over real targets of -sum_v q_v ln p_v, q = (1 - eps) onehot + eps / V  [sec. 5.4]."""
    loss, vocab_size = 0.0, logits.shape[1]
    for row, target in zip(logits, targets, strict=True):
        if target == pad_id:
            continue
        log_total = math.log(math.fsum(math.exp(value) for value in row))
        for token in range(vocab_size):
            q = label_smoothing / vocab_size + (1.0 - label_smoothing if token == target else 0.0)
            loss -= q * (row[token] - log_total)
    return loss


def entropy_of_smoothed_target(vocab_size: int, label_smoothing: float) -> float:
    """-sum q ln q in nats: no prediction can have a smaller smoothed loss."""
    right = 1.0 - label_smoothing + label_smoothing / vocab_size
    wrong = label_smoothing / vocab_size
    return -right * math.log(right) - ((vocab_size - 1) * wrong * math.log(wrong) if wrong else 0.0)
