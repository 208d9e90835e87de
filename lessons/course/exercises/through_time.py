"""Exercise of lesson 15: backpropagation through time."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.recurrence import SIZES, STEP_PARTS, as_row, step_backward
from minitransformer.ops.gru import gru_backward, gru_forward


def through_time_inputs(rng):
    for length, (d_in, d) in zip((2, 3, 5), SIZES, strict=True):
        shapes = (length, d), (length, d_in), (d,), (d_in, 3 * d), (d, 3 * d), (3 * d,), (3 * d,)
        yield tuple(rng.standard_normal(shape) for shape in shapes)


def through_time(grad_y, x, h, w_x, w_h, b_x, b_h):
    saved = gru_forward(*as_row(x, h), w_x, w_h, b_x, b_h)[1]
    grad_x, grad_h, *grads = gru_backward(grad_y[None], saved)
    return grad_x[0], grad_h[0], *grads


def through_time_with(
    later=1.0, of_weights=sum, state=0, order=reversed, outputs=lambda t, length: 1.0, first=1.0, kept=0.0
):
    """Step by step, with other sums, states or times, a smaller first state, or without some of the gradients."""

    def wrong(grad_y, x, h, *weights):
        h = first * h
        states = [h, *gru_forward(*as_row(x, h), *weights)[0][0]]
        grad_x, grad_h, steps = np.zeros_like(x), np.zeros_like(h), []
        for t in order(range(len(x))):
            grad_state = outputs(t, len(x)) * grad_y[t] + later * grad_h
            grad_x[t], grad_before, *grads = step_backward(grad_state, x[t], states[t + state], *weights)
            grad_h = grad_before + kept * grad_h
            steps.append(grads)
        return grad_x, grad_h, *(of_weights(each) for each in zip(*steps, strict=True))

    return wrong


THROUGH_TIME = Exercise(
    "15_why_self_attention.through_time",
    through_time_inputs,
    reference=through_time,
    tested="all six gradients of 2, 3 and 5 steps, against the engine",
    parts=STEP_PARTS,
    mistakes=(
        Mistake(
            "What later steps send back is missing: y_t is an output, and also the state of the next step.",
            through_time_with(later=0.0),
        ),
        Mistake(
            "The gradients of the weights are those of one step alone: every step used the same weights, so sum.",
            through_time_with(of_weights=lambda steps: steps[-1]),
        ),
        Mistake(
            "The gradients of the weights are means over the steps: sum.",
            through_time_with(of_weights=lambda steps: sum(steps) / len(steps)),
        ),
        Mistake(
            "A step's backward needs the state before the step; here it gets the one after it.",
            through_time_with(state=1),
        ),
        Mistake("The first state is h; here it is 0.", through_time_with(first=0.0)),
        Mistake(
            "grad_h is summed over the steps: what a step sends back already includes all later ones.",
            through_time_with(kept=1.0),
        ),
        Mistake(
            "Only the last output has a gradient here; each y_t has one of its own.",
            through_time_with(outputs=lambda t, length: t == length - 1),
        ),
        Mistake(
            "Time runs forwards here: what a state sends back is known only after all later steps.",
            through_time_with(order=iter),
        ),
    ),
)
