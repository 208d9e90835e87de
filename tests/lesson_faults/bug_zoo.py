"""Planted faults of the bug zoo: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import bug_zoo as right


def asked_with(change):
    return lambda layer: lambda x: layer(change(x))


def place_by_zeros(block, d_model):
    x = np.arange(1.0, d_model + 1)[None]
    return "pre" if np.allclose(block(x, np.zeros_like), x) else "post"


def place_by_identity(block, d_model):
    x = 1.0 + np.arange(float(d_model))[None] ** 2
    added = block(x, lambda y: y) - x
    return "branch" if abs(added.mean()) < 1e-6 else "post"


def masks_by_counting(layer, shape, p_drop):
    stayed = layer(np.zeros(shape), [np.ones_like] * 3) * (1 - p_drop)
    return len(set(np.rint(stayed).ravel().tolist()) - {0.0})


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
        "once per tensor": (
            "rate * g for w, g in zip( -> learning_rate(step + i, d_model, warmup) * g for i, (w, g) in enumerate(zip(",
            "strict=True)], step -> strict=True))], step + len(gradients) - 1",
        ),
        "that of the update before": "learning_rate(step -> learning_rate(step - 1",
        "points uphill": "w - rate -> w + rate",
        "Expected": "learning_rate(step, d_model -> learning_rate(d_model, step",
        "is not counted": "], step -> ], step - 1",
    },
    "still_drops": {
        "also comes from a ReLU": lambda layer, d_model: (layer(np.ones((10**5, d_model))) == 0.0).any(),
        "A few numbers": with_inputs(right.still_drops, layer=asked_with(lambda x: x[:2])),
        "asked about zeros": with_inputs(right.still_drops, layer=asked_with(np.zeros_like)),
        "True for every layer": lambda layer, d_model: True,
    },
    "padding_mask": {
        "wrong axis": "real[:, None, :] -> real[..., None]",
        "on the wrong axis": ("-np.inf -> scores", "return  -> return real[..., None] * "),
        "after the softmax": ("-np.inf -> scores", "return  -> return real[:, None] * "),
        "one key too late": "< lengths -> <= lengths",
    },
    "norm_place": {
        "That is what the text says": lambda block, d_model: "post",
        "returns zeros": place_by_zeros,
        "returns its input": place_by_identity,
    },
    "shared_masks": {
        "Only neighbors": ("return len({ -> a, b, c = [", "}) -> ]\n    return 1 + (a != b) + (b != c)"),
        "how many of them stayed": masks_by_counting,
        "always 3": lambda layer, shape, p_drop: 3,
    },
    "scores": {
        "sqrt(d_model) where sqrt(d_k) belongs": "math.sqrt(d_k) -> math.sqrt(d_model)",
        "is missing": lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads) * np.sqrt(x.shape[1] / n_heads),
        "interleaved": "n_heads, d_k).swapaxes(0, 1) -> d_k, n_heads).transpose(2, 0, 1)",
        "The words are cut": "reshape(length, n_heads, d_k).swapaxes(0, 1) -> reshape(n_heads, length, d_k)",
        "must have the shape (4, 5, 5), got (5, 4, 4)": "reshape(length, n_heads -> reshape(n_heads, length",
        "exchanged": lambda x, w_q, w_k, n_heads: right.scores(x, w_q, w_k, n_heads).swapaxes(1, 2),
    },
    "mean_loss": {
        "Padding stands in the mean": "[targets != PAD] -> ",
        "counted in the divisor": lambda logits, targets: right.mean_loss(logits, targets) * np.mean(targets > 0),
        "mean of sentence means": lambda logits, targets: np.mean(
            [right.mean_loss(logits[[b]], targets[[b]]) for b in range(len(targets))]
        ),
    },
    "shifted_target": {
        "not shifted": with_result(right.shifted_target, lambda tgt_in, _: (tgt_in, tgt_in)),
        "shifted by two": target_by_two,
        "EOS is missing": target_without_end,
        "The result holds floats": with_result(right.shifted_target, lambda *arrays: tuple(1.0 * a for a in arrays)),
    },
}
