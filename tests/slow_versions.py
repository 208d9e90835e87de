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


def gru(inputs, h, w_x, w_h, b_x, b_h) -> list[np.ndarray]:
    """The state after each input  [Cho et al. 2014, eq. 5 to 8; the reset gate after the product with h]."""
    states = []
    for x in inputs:
        (r, z, n), (h_r, h_z, h_n) = np.split(x @ w_x + b_x, 3), np.split(h @ w_h + b_h, 3)
        r, z = 1 / (1 + np.exp(-r - h_r)), 1 / (1 + np.exp(-z - h_z))
        h = (1 - z) * np.tanh(n + r * h_n) + z * h
        states.append(h)
    return states


def recurrent_model(model, src, tgt) -> tuple[np.ndarray, np.ndarray]:
    """Of one pair without padding: the logits, (T, V), and attention's weights, (T, S); zeros without attention."""
    weights = {name: model.parameters[name].data for name in model.parameters.names}
    root, attention = math.sqrt(model.config.d_model), model.config.attention

    def layer(name: str, inputs, h) -> list[np.ndarray]:
        return gru(inputs, h, *(weights[f"{name}.{part}"] for part in ("w_x", "w_h", "b_x", "b_h")))

    memory, zero = root * weights["embedding"][src], np.zeros(model.config.d_model // 2)
    for i in range(model.config.n_layers):
        forwards, backwards = (layer(f"encoder.layers.{i}.{j}", memory[:: 1 - 2 * j], zero) for j in (0, 1))
        memory = np.concatenate([forwards, backwards[::-1]], axis=1)
    last = np.concatenate([forwards[-1], backwards[-1]])
    states = root * weights.get("tgt_embedding", weights["embedding"])[tgt]
    for i in range(model.config.n_layers):
        states = layer(f"decoder.layers.{i}", states, last)
    logits, maps = [], []
    for h in states:
        scores = memory @ h
        if attention == "additive":
            query, keys = (weights[f"decoder.attention.{name}"] for name in ("w_a", "u_a"))
            scores = np.tanh(h @ query + memory @ keys) @ weights["decoder.attention.w"]
        maps.append(softmax_row(scores, [attention != "none"] * len(src)))
        context = last if attention == "none" else maps[-1] @ memory
        y = np.tanh(np.concatenate([context, h]) @ weights["decoder.w_c"])
        logits.append(weights.get("projection", weights["embedding"]) @ y)
    return np.array(logits), np.array(maps)


def entropy_of_smoothed_target(vocab_size: int, label_smoothing: float) -> float:
    """-sum q ln q in nats: no prediction can have a smaller smoothed loss."""
    right = 1.0 - label_smoothing + label_smoothing / vocab_size
    wrong = label_smoothing / vocab_size
    return -right * math.log(right) - ((vocab_size - 1) * wrong * math.log(wrong) if wrong else 0.0)
