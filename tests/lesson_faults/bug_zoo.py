"""Planted faults of the bug zoo: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from minitransformer.optim import learning_rate
from solutions import bug_zoo as right


def schedule_per_tensor(parameters, gradients, step, d_model, warmup):
    changed = []
    for w, g in zip(parameters, gradients, strict=True):
        step += 1
        changed.append(w - learning_rate(step, d_model, warmup) * g)
    return changed, step


def schedule_late(parameters, gradients, step, d_model, warmup):
    rate = learning_rate(step, d_model, warmup)
    return [w - rate * g for w, g in zip(parameters, gradients, strict=True)], step + 1


def schedule_uphill(parameters, gradients, step, d_model, warmup):
    return right.schedule(parameters, [-g for g in gradients], step, d_model, warmup)


def schedule_not_counted(parameters, gradients, step, d_model, warmup):
    return right.schedule(parameters, gradients, step, d_model, warmup)[0], step


def dropout_scaled_twice(x, keep, p_drop, training):
    return right.dropout(x, keep, p_drop, training) * (1.0 if training else 1 - p_drop)


def mask_rows(scores, lengths):
    scores = scores.copy()
    for b, length in enumerate(lengths):
        scores[b, length:, :] = -np.inf
    return right.padding_mask(scores, np.full(len(lengths), scores.shape[-1]))


def mask_rows_finite(scores, lengths):
    weights = right.padding_mask(scores, np.full(len(lengths), scores.shape[-1]))
    for b, length in enumerate(lengths):
        weights[b, length:] = 0.0
    return weights


def mask_late(scores, lengths):
    weights = right.padding_mask(scores, np.full(len(lengths), scores.shape[-1]))
    for b, length in enumerate(lengths):
        weights[b, :, length:] = 0.0
    return weights


def place_by_zeros(block, d_model):
    x = np.arange(1.0, d_model + 1)[None]
    return "pre" if np.allclose(block(x, np.zeros_like), x) else "post"


def place_by_identity(block, d_model):
    x = 1.0 + np.arange(float(d_model))[None] ** 2
    added = block(x, lambda y: y) - x
    return "branch" if abs(added.mean()) < 1e-6 else "post"


def masks_of_neighbours(layer, shape, p_drop):
    seen = read(layer, shape, p_drop)
    return 1 + int((seen[0] != seen[1]).any()) + int((seen[1] != seen[2]).any())


def read(layer, shape, p_drop):
    numbers = [lambda x, v=v: np.full(x.shape, v) for v in (1.0, 10.0, 100.0)]
    code = np.rint(layer(np.zeros(shape), numbers) * (1 - p_drop)).astype(int)
    return [code // unit % 10 for unit in (1, 10, 100)]


def masks_by_counting(layer, shape, p_drop):
    stayed = layer(np.zeros(shape), [np.ones_like] * 3) * (1 - p_drop)
    return len(set(np.rint(stayed).ravel().tolist()) - {0.0})


def scores_interleaved(x, w_q, w_k, n_heads):
    columns = np.arange(x.shape[1]).reshape(-1, n_heads).T.ravel()
    return right.scores(x, w_q[:, columns], w_k[:, columns], n_heads)


def nll_of(logits, targets):
    log_p = right.log_probabilities(logits).reshape(-1, logits.shape[-1])
    return -log_p[np.arange(targets.size), targets.ravel()].reshape(targets.shape)


def smoothed_over_padding(logits, targets, eps):
    plain = right.smoothed_loss(logits, targets, 0.0)
    return (1 - eps) * plain - eps * right.log_probabilities(logits).mean(axis=1).sum()


def smoothed_everywhere(logits, targets, eps):
    return (1 - eps) * nll_of(logits, targets).sum() - eps * right.log_probabilities(logits).mean(axis=1).sum()


def target_read(sequences):
    tgt_in, _ = right.shifted_target(sequences)
    return tgt_in, tgt_in


def target_by_two(sequences):
    tgt_in, tgt_out = right.shifted_target(sequences)
    return tgt_in, right.shifted_target([s[1:] for s in sequences])[1][:, : tgt_out.shape[1] - 1]


def target_without_end(sequences):
    tgt_in, tgt_out = right.shifted_target([s[:-1] for s in sequences])
    for row, s in zip(tgt_out, sequences, strict=True):
        row[len(s) - 1] = s[-1]
    return tgt_in, tgt_out


FAULTS = {
    "softmax_gradient": [
        (lambda grad_y, y: right.softmax_gradient(grad_y / y.shape[0], y), "Too small by the batch size"),
        (lambda grad_y, y: grad_y * y, "mean term is missing"),
        (lambda grad_y, y: y * grad_y - y * np.vdot(grad_y, y), "sum runs over the whole array"),
    ],
    "schedule": [
        (schedule_per_tensor, "once per tensor"),
        (schedule_late, "that of the update before"),
        (schedule_uphill, "points uphill"),
        (schedule_not_counted, "is not counted"),
    ],
    "dropout": [
        (lambda x, keep, p_drop, training: np.where(keep, x / (1 - p_drop), 0.0), "active at inference"),
        (lambda x, keep, p_drop, training: np.where(keep, x, 0.0) if training else x, "not scaled up"),
        (dropout_scaled_twice, "there twice"),
    ],
    "padding_mask": [
        (mask_rows, "wrong axis"),
        (mask_rows_finite, "wrong axis"),
        (mask_late, "after the softmax"),
        (lambda scores, lengths: right.padding_mask(scores, lengths + 1), "one key too late"),
    ],
    "norm_place": [
        (lambda block, d_model: "post", "That is what the text says"),
        (place_by_zeros, "returns zeros"),
        (place_by_identity, "returns its input"),
    ],
    "shared_masks": [
        (masks_of_neighbours, "Only neighbours"),
        (masks_by_counting, "how many of them stayed"),
        (lambda layer, shape, p_drop: 3, "always 3"),
    ],
    "scores": [
        (
            lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads) / np.sqrt(n_heads),
            "sqrt(d_model) where sqrt(d_k) belongs",
        ),
        (lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads) * np.sqrt(x.shape[1] / n_heads), "is missing"),
        (scores_interleaved, "interleaved"),
        (lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads).swapaxes(1, 2), "exchanged"),
    ],
    "mean_loss": [
        (lambda logits, targets: nll_of(logits, targets).mean(), "Padding stands in the mean"),
        (
            lambda logits, targets: (nll_of(logits, targets) * (targets > 0)).sum() / targets.size,
            "counted in the divisor",
        ),
        (
            lambda logits, targets: np.mean([right.mean_loss(logits[[b]], targets[[b]]) for b in range(len(targets))]),
            "mean of sentence means",
        ),
    ],
    "smoothed_loss": [
        (smoothed_over_padding, "smoothing runs over padding"),
        (smoothed_everywhere, "counts in both parts"),
        (lambda logits, targets, eps: right.smoothed_loss(logits, targets, 0.0), "smoothing is missing"),
    ],
    "shifted_target": [
        (target_read, "not shifted"),
        (target_by_two, "shifted by two"),
        (target_without_end, "EOS is missing"),
    ],
}
