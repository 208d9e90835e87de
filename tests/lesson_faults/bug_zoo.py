"""Planted faults of the bug zoo: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from minitransformer.optim import learning_rate
from solutions import bug_zoo as right


def softmax_over_batch(grad_y, y):
    return right.softmax_gradient(grad_y / y.shape[0], y)


def softmax_without_mean(grad_y, y):
    return grad_y * y


def softmax_one_sum(grad_y, y):
    return y * grad_y - y * np.vdot(grad_y, y)


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


def dropout_always(x, keep, p_drop, training):
    return np.where(keep, x / (1 - p_drop), 0.0)


def dropout_unscaled(x, keep, p_drop, training):
    return np.where(keep, x, 0.0) if training else x


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


def mask_one_more(scores, lengths):
    return right.padding_mask(scores, lengths + 1)


def place_believed(block, d_model):
    return "post"


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


def masks_always_three(layer, shape, p_drop):
    return 3


def scores_over_d_model(x, w_q, w_k, n_heads):
    return right.scores(x, w_q, w_k, n_heads) / np.sqrt(n_heads)


def scores_unscaled(x, w_q, w_k, n_heads):
    return right.scores(x, w_q, w_k, n_heads) * np.sqrt(x.shape[1] / n_heads)


def scores_interleaved(x, w_q, w_k, n_heads):
    columns = np.arange(x.shape[1]).reshape(-1, n_heads).T.ravel()
    return right.scores(x, w_q[:, columns], w_k[:, columns], n_heads)


def scores_transposed(x, w_q, w_k, n_heads):
    return right.scores(x, w_q, w_k, n_heads).swapaxes(1, 2)


def nll_of(logits, targets):
    log_p = right.log_probabilities(logits).reshape(-1, logits.shape[-1])
    return -log_p[np.arange(targets.size), targets.ravel()].reshape(targets.shape)


def mean_of_all(logits, targets):
    return nll_of(logits, targets).mean()


def mean_over_all_places(logits, targets):
    return (nll_of(logits, targets) * (targets > 0)).sum() / targets.size


def mean_of_means(logits, targets):
    return np.mean([right.mean_loss(logits[[b]], targets[[b]]) for b in range(len(targets))])


def smoothed_over_padding(logits, targets, eps):
    plain = right.smoothed_loss(logits, targets, 0.0)
    return (1 - eps) * plain - eps * right.log_probabilities(logits).mean(axis=1).sum()


def smoothed_everywhere(logits, targets, eps):
    return (1 - eps) * nll_of(logits, targets).sum() - eps * right.log_probabilities(logits).mean(axis=1).sum()


def smoothed_not(logits, targets, eps):
    return right.smoothed_loss(logits, targets, 0.0)


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
        (softmax_over_batch, "Too small by the batch size"),
        (softmax_without_mean, "mean term is missing"),
        (softmax_one_sum, "sum runs over the whole array"),
    ],
    "schedule": [
        (schedule_per_tensor, "once per tensor"),
        (schedule_late, "that of the update before"),
        (schedule_uphill, "points uphill"),
        (schedule_not_counted, "is not counted"),
    ],
    "dropout": [
        (dropout_always, "active at inference"),
        (dropout_unscaled, "not scaled up"),
        (dropout_scaled_twice, "there twice"),
    ],
    "padding_mask": [
        (mask_rows, "wrong axis"),
        (mask_rows_finite, "wrong axis"),
        (mask_late, "after the softmax"),
        (mask_one_more, "one key too late"),
    ],
    "norm_place": [
        (place_believed, "That is what the text says"),
        (place_by_zeros, "returns zeros"),
        (place_by_identity, "returns its input"),
    ],
    "shared_masks": [
        (masks_of_neighbours, "Only neighbours"),
        (masks_by_counting, "how many of them stayed"),
        (masks_always_three, "always 3"),
    ],
    "scores": [
        (scores_over_d_model, "sqrt(d_model) where sqrt(d_k) belongs"),
        (scores_unscaled, "is missing"),
        (scores_interleaved, "interleaved"),
        (scores_transposed, "exchanged"),
    ],
    "mean_loss": [
        (mean_of_all, "Padding stands in the mean"),
        (mean_over_all_places, "counted in the divisor"),
        (mean_of_means, "mean of sentence means"),
    ],
    "smoothed_loss": [
        (smoothed_over_padding, "smoothing runs over padding"),
        (smoothed_everywhere, "counts in both parts"),
        (smoothed_not, "smoothing is missing"),
    ],
    "shifted_target": [
        (target_read, "not shifted"),
        (target_by_two, "shifted by two"),
        (target_without_end, "EOS is missing"),
    ],
}
