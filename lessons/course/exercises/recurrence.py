"""Exercises of lesson 15: a step of a GRU, and its backward."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.gru_cell import gru_cell_backward, gru_cell_forward

SIZES = ((1, 1), (2, 3), (4, 2))


def step_inputs(rng):
    for d_in, d in SIZES:
        shapes = (d_in,), (d,), (d_in, 3 * d), (d, 3 * d), (3 * d,), (3 * d,)
        yield tuple(rng.standard_normal(shape) for shape in shapes)


# -- step -------------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5


def step_with(
    order=("r", "z", "n"),
    candidate=lambda p, h, w, b, r: np.tanh(p + r * (h @ w + b)),
    mix=lambda n, z, h: (1.0 - z) * n + z * h,
    bias=1.0,
    gate=sigmoid,
):
    """A step with another order of the columns, candidate, mean or gate, or less of the bias b_h."""

    def step(x, h, w_x, w_h, b_x, b_h):
        d = len(h)
        column = {name: slice(i * d, (i + 1) * d) for i, name in enumerate(order)}
        p, b = x @ w_x + b_x, bias * b_h
        r, z = (gate(p[column[i]] + h @ w_h[:, column[i]] + b[column[i]]) for i in "rz")
        return mix(candidate(p[column["n"]], h, w_h[:, column["n"]], b[column["n"]], r), z, h)

    return step


STEP = Exercise(
    "15_why_self_attention.step",
    step_inputs,
    reference=lambda x, h, w_x, w_h, b_x, b_h: gru_cell_forward(x, h, w_x, w_h, b_x, b_h)[0],
    tested="widths 1 to 3, against the engine",
    mistakes=(
        Mistake(
            "z keeps the old state: (1 - z) n + z h. Here n and h are exchanged.",
            step_with(mix=lambda n, z, h: z * n + (1.0 - z) * h),
        ),
        Mistake(
            "r multiplies h before the product, as in Cho et al. Here it multiplies h W_hn + b_hn, as in PyTorch.",
            step_with(candidate=lambda p, h, w, b, r: np.tanh(p + (r * h) @ w + b)),
        ),
        Mistake(
            "r multiplies h W_hn, but not its bias: b_hn stands inside the brackets too.",
            step_with(candidate=lambda p, h, w, b, r: np.tanh(p + r * (h @ w) + b)),
        ),
        Mistake(
            "r multiplies the input's part too; it can only forget the state.",
            step_with(candidate=lambda p, h, w, b, r: np.tanh(r * (p + h @ w + b))),
        ),
        Mistake("The reset gate is missing in n.", step_with(candidate=lambda p, h, w, b, r: np.tanh(p + h @ w + b))),
        Mistake(
            "The candidate is a tanh, not a sigmoid.",
            step_with(candidate=lambda p, h, w, b, r: sigmoid(p + r * (h @ w + b))),
        ),
        Mistake("The tanh of n is missing.", step_with(candidate=lambda p, h, w, b, r: p + r * (h @ w + b))),
        Mistake("The columns stand in the order r, z, n. Here z and r are exchanged.", step_with(order="zrn")),
        Mistake("The columns stand in the order r, z, n. Here n and z are exchanged.", step_with(order="rnz")),
        Mistake("The sigmoid is 1 / (1 + e^-x); the minus is missing.", step_with(gate=lambda x: sigmoid(-x))),
        Mistake("The gates are sigmoids, between 0 and 1; here they are tanh.", step_with(gate=np.tanh)),
        Mistake("The factor 1 - z of n is missing.", step_with(mix=lambda n, z, h: n + z * h)),
        Mistake("The bias b_h is missing.", step_with(bias=0.0)),
        Mistake("This is the candidate alone; the update gate z mixes it with h.", step_with(mix=lambda n, z, h: n)),
    ),
)

# -- step_backward ----------------------------------------------------------------------------------------------------


def step_backward_inputs(rng):
    for inputs in step_inputs(rng):
        yield rng.standard_normal(inputs[1].shape), *inputs


def as_row(*vectors):
    return tuple(each[None] for each in vectors)


def step_backward(grad_y, x, h, w_x, w_h, b_x, b_h):
    saved = gru_cell_forward(*as_row(x, h), w_x, w_h, b_x, b_h)[1]
    grad_x, grad_h, *grads = gru_cell_backward(grad_y[None], saved)
    return grad_x[0], grad_h[0], *grads


def unchanged(r, z, n, h, part):
    return 1.0


def step_backward_with(
    change_n=unchanged, change_z=unchanged, change_r=unchanged, through_r=True, direct=lambda z: z, recurrent=1.0
):
    """With factors at the three gradients: functions of r, z, n, h and ``part``, which is h W_hn + b_hn."""

    def wrong(grad_y, x, h, w_x, w_h, b_x, b_h):
        d, projected, from_state = len(h), x @ w_x + b_x, h @ w_h + b_h
        r, z = np.split(sigmoid(projected[: 2 * d] + from_state[: 2 * d]), 2)
        part = from_state[2 * d :]
        n = np.tanh(projected[2 * d :] + r * part)
        values = r, z, n, h, part
        grad_n = grad_y * (1.0 - z) * (1.0 - n * n) * change_n(*values)
        grad_z = grad_y * (h - n) * z * (1.0 - z) * change_z(*values)
        grad_r = grad_n * part * r * (1.0 - r) * change_r(*values)
        of_x = np.concatenate([grad_r, grad_z, grad_n])
        of_h = np.concatenate([grad_r, grad_z, grad_n * r if through_r else grad_n])
        grad_h = grad_y * direct(z) + recurrent * (of_h @ w_h.T)
        return of_x @ w_x.T, grad_h, np.outer(x, of_x), np.outer(h, of_h), of_x, of_h

    return wrong


STEP_PARTS = ("grad_x", "grad_h", "grad_w_x", "grad_w_h", "grad_b_x", "grad_b_h")

STEP_BACKWARD = Exercise(
    "15_why_self_attention.step_backward",
    step_backward_inputs,
    reference=step_backward,
    tested="all six gradients for widths 1 to 3, against the engine",
    parts=STEP_PARTS,
    mistakes=(
        Mistake("The direct path to h is missing: y holds z h.", step_backward_with(direct=lambda z: 0.0)),
        Mistake("The direct path to h has the factor z, not 1 - z.", step_backward_with(direct=lambda z: 1.0 - z)),
        Mistake(
            "Only the direct path to h is there: h also made both gates and the candidate.",
            step_backward_with(recurrent=0.0),
        ),
        Mistake(
            "The slope 1 - n^2 of the tanh is missing.",
            step_backward_with(change_n=lambda r, z, n, h, part: 1.0 / (1.0 - n * n)),
        ),
        Mistake(
            "The slope of the tanh is 1 - n^2, not 1 - n.",
            step_backward_with(change_n=lambda r, z, n, h, part: 1.0 / (1.0 + n)),
        ),
        Mistake(
            "The factor 1 - z is missing on the way to n.",
            step_backward_with(change_n=lambda r, z, n, h, part: 1.0 / (1.0 - z)),
        ),
        Mistake(
            "The factor z stands where 1 - z belongs: y holds (1 - z) n.",
            step_backward_with(change_n=lambda r, z, n, h, part: z / (1.0 - z)),
        ),
        Mistake(
            "The gradient of z has the wrong sign: a larger z takes n away and adds h.",
            step_backward_with(change_z=lambda r, z, n, h, part: -1.0),
        ),
        Mistake(
            "The gradient of z has h alone: a larger z takes n away too.",
            step_backward_with(change_z=lambda r, z, n, h, part: h / (h - n)),
        ),
        Mistake(
            "The gradient of z has -n alone: a larger z adds h too.",
            step_backward_with(change_z=lambda r, z, n, h, part: -n / (h - n)),
        ),
        Mistake(
            "Both sigmoids' slopes are missing, z (1 - z) and r (1 - r).",
            step_backward_with(
                change_z=lambda r, z, n, h, part: 1.0 / (z * (1.0 - z)),
                change_r=lambda r, z, n, h, part: 1.0 / (r * (1.0 - r)),
            ),
        ),
        Mistake(
            "r multiplied h W_hn + b_hn: that factor is missing in its gradient.",
            step_backward_with(change_r=lambda r, z, n, h, part: 1.0 / part),
        ),
        Mistake(
            "The slope z (1 - z) of the sigmoid is missing.",
            step_backward_with(change_z=lambda r, z, n, h, part: 1.0 / (z * (1.0 - z))),
        ),
        Mistake(
            "The slope r (1 - r) of the sigmoid is missing.",
            step_backward_with(change_r=lambda r, z, n, h, part: 1.0 / (r * (1.0 - r))),
        ),
        Mistake("h W_hn + b_hn was multiplied by r: its gradient is grad_n r.", step_backward_with(through_r=False)),
    ),
)
