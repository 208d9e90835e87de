"""Exercises of ``my_transformer``, steps 2 and 3: operations and attention."""

import numpy as np

from course.compare import same
from course.exercise import Exercise, Mistake
from course.exercises.glue_operations import deaf, through_vars, with_gradients
from course.exercises.glue_vars import data_and_gradients, seen
from course.exercises.more_sources import right_only_for_as_many
from solutions import my_transformer as right
from solutions.my_transformer import Var

# -- 2: operations ----------------------------------------------------------------------------------------------------


def norm_of_its_output(x, gamma, beta):
    y = right.norm(x, gamma, beta).data
    return Var(y, (x, gamma, beta), lambda grad: right.norm_backward(grad, y, gamma.data, 1e-6))


def last_two_exchanged(grads):
    first, second, third = grads
    return first, third, second


NORM = Exercise(
    "my_transformer.norm",
    lambda rng: (
        (rng.standard_normal((n, d)), rng.uniform(0.5, 2.0, d), rng.standard_normal(d), rng.standard_normal((n, d)))
        for n, d in ((2, 4), (3, 6))
    ),
    reference=right.norm,
    tested="data and gradients of x, gamma and beta, two shapes",
    parts=data_and_gradients("x", "gamma", "beta"),
    mistakes=(
        Mistake(
            "The gradients of gamma and beta are exchanged: their order is that of the parents.",
            with_gradients(right.norm, last_two_exchanged),
        ),
        Mistake(
            "The backward rule was given the norm's output; yours of lesson 6 takes its input x.",
            norm_of_its_output,
        ),
        deaf(right.norm),
    ),
    through=through_vars("x", "gamma", "beta"),
)


def embed_with(forward=lambda y, ids: y, backward=right.embedding_backward):
    def wrong(table, ids):
        y = forward(right.embed(table, ids).data, ids)
        return Var(y, (table,), lambda grad: (backward(grad, ids, len(table.data)),))

    return wrong


def last_row_alone(grad, ids, n_tokens):
    found = np.zeros((n_tokens, grad.shape[1]))
    found[ids] = np.sqrt(grad.shape[1]) * grad
    return found


EMBED = Exercise(
    "my_transformer.embed",
    lambda rng: (
        (rng.standard_normal((6, d)), np.array(ids), rng.standard_normal((len(ids), d)))
        for d, ids in ((4, (3, 5, 3)), (6, (4, 1, 2, 4)))
    ),
    reference=right.embed,
    tested="data and the table's gradient, with a token that stands twice",
    parts=data_and_gradients("table"),
    mistakes=(
        Mistake(
            "Positions are missing: add the sinusoids of T positions.",
            embed_with(lambda y, ids: y - right.sinusoids(*y.shape)),
        ),
        Mistake(
            "The positions are multiplied by sqrt(d_model) too; only the embedding is.",
            embed_with(lambda y, ids: y + (np.sqrt(y.shape[1]) - 1) * right.sinusoids(*y.shape)),
        ),
        Mistake(
            "The embedding is multiplied by sqrt(d_model) twice: look_up does it.",
            embed_with(lambda y, ids: y + (np.sqrt(y.shape[1]) - 1) * (y - right.sinusoids(*y.shape))),
        ),
        Mistake(
            "A token that stands twice gets the gradient of its last place alone.", embed_with(backward=last_row_alone)
        ),
    ),
    through=through_vars("table", others=["ids"]),
)

# -- 3: attention -----------------------------------------------------------------------------------------------------


def attend_inputs(rng):
    for n, d_model, n_heads in ((3, 4, 2), (4, 6, 3)):
        yield *rng.standard_normal((3, n, d_model)), np.tri(n, dtype=bool), n_heads, rng.standard_normal((n, d_model))


ATTEND = Exercise(
    "my_transformer.attend",
    attend_inputs,
    reference=right.attend,
    tested="data and the gradients of q, k and v, two and three heads, causal masks",
    parts=data_and_gradients("q", "k", "v"),
    mistakes=(
        Mistake(
            "This is one wide head: split q, k and v first, and merge at the end.",
            lambda q, k, v, mask, n_heads: right.attend(q, k, v, mask, 1),
        ),
        Mistake(
            "The mask is not used.", lambda q, k, v, mask, n_heads: right.attend(q, k, v, np.ones_like(mask), n_heads)
        ),
        Mistake(
            "The gradients of k and v are exchanged: their order is that of the parents.",
            with_gradients(right.attend, last_two_exchanged),
        ),
    ),
    through=through_vars("q", "k", "v", others=["mask", "n_heads"]),
)


def through_attention(attention):
    def seen_attention(weights, x, memory, mask, n_heads, cotangent):
        p = dict(zip("qkvo", map(Var, weights), strict=True))
        x = Var(x)
        memory = x if memory is None else Var(memory)  # None: self-attention
        return seen(attention(p, x, memory, mask, n_heads), cotangent, [x, memory, *p.values()])

    return seen_attention


def attention_inputs(rng):
    for n, memory, mask in ((3, True, None), (3, None, np.tri(3, dtype=bool)), (4, True, None)):
        x, other, cotangent = rng.standard_normal((3, n, 4))
        yield rng.standard_normal((4, 4, 4)) / 2, x, memory and other, mask, 2, cotangent


def whole_memory(attention, weights, x, memory, mask, *rest):
    """Whether None is all that goes wrong."""
    if mask is not None:
        return None
    everything = np.ones((len(x), len(memory)), dtype=bool)
    expected = through_attention(right.attention)(weights, x, memory, None, *rest)
    given, written_out = (attention(weights, x, memory, each, *rest) for each in (None, everything))
    if same(expected, given, 1e-6) or not same(expected, written_out, 1e-6):
        return None
    return "The mask may be None: then each query reads the whole memory, np.ones((T, S), bool)."


def more_sources(attention, weights, x, memory, mask, *rest):
    if memory is None:
        return None
    sentence = "With as many sources as queries it is right, and with more sources it is not: the mask is (T, S)."
    inputs, more = ((weights, x, each, None, *rest) for each in (memory, np.concatenate([memory, 2 * memory])))
    return right_only_for_as_many(attention, through_attention(right.attention), inputs, more, sentence)


def unprojected(p, x, memory, mask, n_heads):
    everything = np.ones((len(x.data), len(memory.data)), dtype=bool) if mask is None else mask
    q, k, v = right.project(x, p["q"]), right.project(memory, p["k"]), right.project(memory, p["v"])
    return right.attend(q, k, v, everything, n_heads) + right.project(x, Var(np.zeros_like(p["o"].data)))


def causal_always(p, x, memory, mask, n_heads):
    return right.attention(p, x, memory, np.tri(len(x.data), len(memory.data), dtype=bool), n_heads)


ATTENTION = Exercise(
    "my_transformer.attention",
    attention_inputs,
    reference=right.attention,
    tested="self-attention with a causal mask, cross-attention without a mask; gradients of all that it reads",
    parts=data_and_gradients("x", "memory", *"qkvo"),
    mistakes=(
        Mistake(
            "The queries come from the memory: x asks, and the memory gives keys and values.",
            lambda p, x, memory, mask, n_heads: right.attention(p, memory, x, mask, n_heads),
        ),
        Mistake(
            "Keys and values come from x: they must come from the memory.",
            lambda p, x, memory, mask, n_heads: right.attention(p, x, x, mask, n_heads),
        ),
        Mistake("The last projection, by W^O, is missing.", unprojected),
        Mistake("No mask, None, means that all may be read; here it is causal.", causal_always),
    ),
    properties=(whole_memory, more_sources),
    through=through_attention,
)
