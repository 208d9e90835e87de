"""Exercises of lesson 7: the gated layer and its backward."""

from course.exercise import Exercise, Mistake
from course.exercises.feed_forward import positive
from course.gradients import gradients_by_tape

# -- gated and its backward -------------------------------------------------------------------------------------------


def gated(x, w1, w3, w2):
    """(max(0, x W1) * x W3) W2      [Shazeer 2020]; for tensors"""
    return ((x @ w1).relu() * (x @ w3)) @ w2


GATED = Exercise(
    "07_feed_forward.gated",
    lambda rng: [inputs[1:] for inputs in gated_inputs(rng)],
    reference=lambda x, w1, w3, w2: (positive(x @ w1) * (x @ w3)) @ w2,
    tested="one position and four, against the formula",
    mistakes=(
        Mistake("The ReLU is missing.", lambda x, w1, w3, w2: (x @ w1) * (x @ w3) @ w2),
        Mistake(
            "The ReLU is taken of x W3; it belongs to x W1, the gate.",
            lambda x, w1, w3, w2: (x @ w1) * positive(x @ w3) @ w2,
        ),
        Mistake(
            "The ReLU is taken of both projections; x W3 may be negative.",
            lambda x, w1, w3, w2: positive(x @ w1) * positive(x @ w3) @ w2,
        ),
        Mistake(
            "The ReLU is taken of the product; it belongs to the first factor alone.",
            lambda x, w1, w3, w2: positive((x @ w1) * (x @ w3)) @ w2,
        ),
        Mistake(
            "The two projections are added; the gate multiplies.",
            lambda x, w1, w3, w2: (positive(x @ w1) + x @ w3) @ w2,
        ),
        Mistake("The second projection, x W3, is missing.", lambda x, w1, w3, w2: positive(x @ w1) @ w2),
    ),
)


def gated_inputs(rng):
    for length, d_model, d_ff in ((1, 2, 3), (4, 3, 6)):
        shapes = ((length, d_model), (length, d_model), (d_model, d_ff), (d_model, d_ff), (d_ff, d_model))
        yield tuple(rng.standard_normal(shape) for shape in shapes)


def gated_with(grad_gate=None, grad_value=None, second_path=True, active=positive):
    """Its backward, with other gradients of the two projections: functions of (grad_product, gate, value)."""

    def wrong(grad_y, x, w1, w3, w2):
        gate, value, grad_product = x @ w1, x @ w3, grad_y @ w2.T
        to_gate = (grad_gate or (lambda g, a, b: g * b * (a > 0)))(grad_product, gate, value)
        to_value = (grad_value or (lambda g, a, b: g * positive(a)))(grad_product, gate, value)
        grad_x = to_gate @ w1.T + (to_value @ w3.T if second_path else 0.0)
        return grad_x, x.T @ to_gate, x.T @ to_value, (active(gate) * value).T @ grad_y

    return wrong


GATED_BACKWARD = Exercise(
    "07_feed_forward.gated_backward",
    gated_inputs,
    reference=lambda grad_y, x, w1, w3, w2: gradients_by_tape(gated, grad_y, x, w1, w3, w2),
    tested="all four gradients at two sizes, against the tape walking through the forward",
    parts=("grad_x", "grad_w1", "grad_w3", "grad_w2"),
    mistakes=(
        Mistake("The second path to x, through W3, is missing: x was used twice.", gated_with(second_path=False)),
        Mistake(
            "The ReLU's gate is missing in the gradient of x W1.",
            gated_with(grad_gate=lambda g, gate, value: g * value),
        ),
        Mistake(
            "The other factor is missing: the gradient of x W1 is multiplied by x W3.",
            gated_with(grad_gate=lambda g, gate, value: g * (gate > 0)),
        ),
        Mistake(
            "The other factor is missing: the gradient of x W3 is multiplied by max(0, x W1).",
            gated_with(grad_value=lambda g, gate, value: g),
        ),
        Mistake(
            "The gradient of x W3 is multiplied by x W1 before its ReLU: a shut gate lets nothing through.",
            gated_with(grad_value=lambda g, gate, value: g * gate),
        ),
        Mistake(
            "The gradient of x W3 is cut off where x W3 is negative: the ReLU is of x W1 alone.",
            gated_with(grad_value=lambda g, gate, value: g * positive(gate) * (value > 0)),
        ),
        Mistake(
            "grad_w2 is taken with x W1 before its ReLU; w2 was multiplied by the product after it.",
            gated_with(active=lambda gate: gate),
        ),
        Mistake(
            "The gradient of x W3 is multiplied by the slope of the ReLU; its factor is the value, max(0, x W1).",
            gated_with(grad_value=lambda g, gate, value: g * (gate > 0)),
        ),
    ),
)
