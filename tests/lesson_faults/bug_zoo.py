"""Planted faults of the bug zoo: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from minitransformer.optim import learning_rate
from solutions import bug_zoo as right


def schedule_per_tensor(parameters, gradients, step, d_model, warmup):
    changed = []
    for w, g in zip(parameters, gradients, strict=True):
        step += 1
        changed.append(w - learning_rate(step, d_model, warmup) * g)
    return changed, step


def asked_with(change):
    return lambda layer: lambda x: layer(change(x))


def padding(scores, lengths):
    return np.arange(scores.shape[-1]) >= lengths[:, None]  # (B, S)


def unmasked(scores):
    return right.padding_mask(scores, np.full(len(scores), scores.shape[-1]))


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


def target_by_two(sequences):
    tgt_in, tgt_out = right.shifted_target(sequences)
    return tgt_in, right.shifted_target([s[1:] for s in sequences])[1][:, : tgt_out.shape[1] - 1]


def target_without_end(sequences):
    tgt_in, tgt_out = right.shifted_target([s[:-1] for s in sequences])
    for row, s in zip(tgt_out, sequences, strict=True):
        row[len(s) - 1] = s[-1]
    return tgt_in, tgt_out


FAULTS = {
    "softmax_gradient": {
        "Too small by the batch size": lambda grad_y, y: right.softmax_gradient(grad_y / y.shape[0], y),
        "mean term is missing": lambda grad_y, y: grad_y * y,
        "sum runs over the whole array": lambda grad_y, y: y * grad_y - y * np.vdot(grad_y, y),
    },
    "schedule": {
        "once per tensor": schedule_per_tensor,
        "that of the update before": with_result(
            with_inputs(right.schedule, step=lambda step: step - 1), lambda parameters, step: (parameters, step + 1)
        ),
        "points uphill": with_inputs(right.schedule, gradients=lambda gradients: [-g for g in gradients]),
        "is not counted": with_result(right.schedule, lambda parameters, step: (parameters, step - 1)),
    },
    "still_drops": {
        "also comes from a ReLU": lambda layer, d_model: (layer(np.ones((10**5, d_model))) == 0.0).any(),
        "A few numbers": with_inputs(right.still_drops, layer=asked_with(lambda x: x[:2])),
        "asked about zeros": with_inputs(right.still_drops, layer=asked_with(np.zeros_like)),
        "True for every layer": lambda layer, d_model: True,
    },
    "padding_mask": {
        "wrong axis": lambda scores, lengths: unmasked(np.where(padding(scores, lengths)[..., None], -np.inf, scores)),
        "on the wrong axis": lambda scores, lengths: np.where(
            padding(scores, lengths)[..., None], 0.0, unmasked(scores)
        ),
        "after the softmax": lambda scores, lengths: np.where(padding(scores, lengths)[:, None], 0.0, unmasked(scores)),
        "one key too late": with_inputs(right.padding_mask, lengths=lambda lengths: lengths + 1),
    },
    "norm_place": {
        "That is what the text says": lambda block, d_model: "post",
        "returns zeros": place_by_zeros,
        "returns its input": place_by_identity,
    },
    "shared_masks": {
        "Only neighbours": masks_of_neighbours,
        "how many of them stayed": masks_by_counting,
        "always 3": lambda layer, shape, p_drop: 3,
    },
    "scores": {
        "sqrt(d_model) where sqrt(d_k) belongs": lambda *inputs: right.scores(*inputs) / np.sqrt(inputs[-1]),
        "is missing": lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads) * np.sqrt(x.shape[1] / n_heads),
        "interleaved": scores_interleaved,
        "exchanged": lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads).swapaxes(1, 2),
    },
    "mean_loss": {
        "Padding stands in the mean": lambda logits, targets: nll_of(logits, targets).mean(),
        "counted in the divisor": lambda logits, targets: right.mean_loss(logits, targets) * np.mean(targets > 0),
        "mean of sentence means": lambda logits, targets: np.mean(
            [right.mean_loss(logits[[b]], targets[[b]]) for b in range(len(targets))]
        ),
    },
    "smoothed_loss": {
        "smoothing runs over padding": lambda logits, targets, eps: (
            (1 - eps) * right.smoothed_loss(logits, targets, 0.0)
            - eps * right.log_probabilities(logits).mean(axis=1).sum()
        ),
        "counts in both parts": lambda logits, targets, eps: (
            (1 - eps) * nll_of(logits, targets).sum() - eps * right.log_probabilities(logits).mean(axis=1).sum()
        ),
        "smoothing is missing": lambda logits, targets, eps: right.smoothed_loss(logits, targets, 0.0),
    },
    "shifted_target": {
        "not shifted": with_result(right.shifted_target, lambda tgt_in, _: (tgt_in, tgt_in)),
        "shifted by two": target_by_two,
        "EOS is missing": target_without_end,
    },
}
