"""Exercises of ``my_transformer``, the glue that makes a model of the functions of earlier lessons; steps 6 to 8."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.glue_layers import (
    DECODE,
    ENCODE,
    SHAPES,
    SIZES,
    SUBLAYERS,
    some_tokens,
    some_vector,
    through_parameters,
)
from course.exercises.glue_operations import FEED, LOGITS_OF, PROJECT, deaf
from course.exercises.glue_parameters import FIRST_VECTOR, SHAPES_OF, UPDATE, VIEWS
from course.exercises.glue_parts import ATTEND, ATTENTION, EMBED, NORM
from course.exercises.glue_vars import GRADS_OF, VAR, data_and_gradients
from solutions import my_transformer as right
from solutions.my_transformer import Var

# -- 6: loss ----------------------------------------------------------------------------------------------------------


def loss_inputs(rng):
    for n_src, n_tgt, eps in ((2, 3, 0.1), (4, 2, 0.2)):
        yield some_vector(rng), some_tokens(rng, n_src), some_tokens(rng, n_tgt), eps, 1.5


def times(factor):
    """The right loss, ``factor(number of words)`` times."""

    def wrong(p, src, tgt, eps, n_layers, n_heads):
        loss = right.loss_of(p, src, tgt, eps, n_layers, n_heads)
        return Var(loss.data * factor(len(tgt)), (loss,), lambda grad: (grad * factor(len(tgt)),))

    return wrong


def loss_unshifted(p, src, tgt, eps, n_layers, n_heads):
    tgt_in, _ = right.shift(tgt, 1, 2)
    logits = right.decode(p, tgt_in, right.encode(p, src, n_layers, n_heads), n_layers, n_heads)
    loss = right.smoothed_loss(logits.data, tgt_in, eps) / len(tgt_in)
    return Var(loss, (logits,), lambda grad: (right.loss_backward(grad / len(tgt_in), logits.data, tgt_in, eps),))


LOSS_OF = Exercise(
    "my_transformer.loss_of",
    loss_inputs,
    reference=right.loss_of,
    tested="smoothed losses of a mean over tokens, and the gradient of every parameter",
    parts=data_and_gradients("parameters"),
    mistakes=(
        Mistake("This is the sum over the target's tokens: divide by their number.", times(lambda n: n + 1)),
        Mistake(
            "The end mark is a token too: there is one more than the target's words.", times(lambda n: (n + 1) / n)
        ),
        Mistake("The targets are not shifted: the model must predict what it reads.", loss_unshifted),
        Mistake(
            "The targets are not smoothed: eps is not used.",
            lambda p, src, tgt, eps, *sizes: right.loss_of(p, src, tgt, 0.0, *sizes),
        ),
        deaf(right.loss_of),
    ),
    through=through_parameters("src", "tgt", "eps"),
)

# -- 7: the gradient of a batch, over one vector ----------------------------------------------------------------------


def gradient_inputs(rng):
    for lengths in (((2, 3), (3, 1)), ((1, 2), (2, 4), (3, 3))):
        pairs = [(some_tokens(rng, n_src), some_tokens(rng, n_tgt)) for n_src, n_tgt in lengths]
        yield some_vector(rng), SHAPES, pairs, 0.1, *SIZES


def by_tokens(n):
    return (n + 1) / (n + 1).sum()


def alike(n):
    return np.full(len(n), 1 / len(n))


def weighted(of_losses, of_gradients):
    """Sums with these shares of the sentences: functions of an array, their numbers of words."""

    def wrong(vector, shapes, pairs, *rest):
        losses, gradients = zip(*(right.gradient_of(vector, shapes, [pair], *rest) for pair in pairs), strict=True)
        n = np.array([len(tgt) for _, tgt in pairs])
        return of_losses(n) @ np.array(losses), of_gradients(n) @ np.array(gradients)

    return wrong


GRADIENT_OF = Exercise(
    "my_transformer.gradient_of",
    gradient_inputs,
    reference=right.gradient_of,
    tested="batches of two and three pairs of different lengths: the loss and the gradient, in the vector's order",
    parts=("loss", "gradient"),
    mistakes=(
        Mistake(
            "Every sentence counts alike; every token must, so a longer target weighs more.", weighted(alike, alike)
        ),
        Mistake("The loss is the plain mean over sentences; each counts with its tokens.", weighted(alike, by_tokens)),
        Mistake("The end marks are not counted among the tokens.", weighted(*[lambda n: n / n.sum()] * 2)),
        Mistake(
            "The gradients are added up; the batch's is their mean over tokens.", weighted(by_tokens, lambda n: n**0)
        ),
        Mistake(
            "Each gradient is that of a sum over tokens; `accumulated` wants those of means, as loss_of gives them.",
            weighted(by_tokens, lambda n: (n + 1) * by_tokens(n)),
        ),
        Mistake(
            "Only the last pair is left: collect losses and gradients of all.",
            lambda vector, shapes, pairs, *rest: right.gradient_of(vector, shapes, pairs[-1:], *rest),
        ),
    ),
)

# -- 8: translation ---------------------------------------------------------------------------------------------------


def through_translate(translate):
    return lambda vector, src, limit: translate(right.views(vector, SHAPES), src, limit, *SIZES)


def translate_with(read=lambda tokens: tokens, begin=1, end=2, row=-1):
    def wrong(p, src, limit, n_layers, n_heads):
        memory, tokens = right.encode(p, src, n_layers, n_heads), []

        def step(token):
            tokens.append(token)
            return right.decode(p, np.array(read(tokens)), memory, n_layers, n_heads).data[row]

        return right.greedy(step, begin, end, limit)

    return wrong


LAST_ALONE = translate_with(lambda tokens: tokens[-1:])
FIRST_ROW = translate_with(row=0)
EXCHANGED = translate_with(begin=2, end=1)
ENDLESS = translate_with(end=-1)


def translate_inputs(rng):
    """Random models: two of them, one that tells three mistakes apart, and one that ends in time."""
    for mistakes in ((), (), (LAST_ALONE, FIRST_ROW, EXCHANGED), (ENDLESS,)):
        functions, outputs = [through_translate(each) for each in (right.translate, *mistakes)], []
        while len({str(output) for output in outputs}) < len(functions):
            vector, src = some_vector(rng), some_tokens(rng, 3)
            for name, value in right.views(vector, SHAPES).items():
                if value.data.ndim == 1 and "gamma" not in name:
                    value.data *= 0.1  # or a bias decides alone
            outputs = [function(vector, src, 6) for function in functions]
        yield vector, src, 6


TRANSLATE = Exercise(
    "my_transformer.translate",
    translate_inputs,
    reference=right.translate,
    tested="four sources, with random parameters",
    mistakes=(
        Mistake("The decoder reads the last token alone: it must read all that is written so far.", LAST_ALONE),
        Mistake("The logits of the first position are used; the next token stands in the last row.", FIRST_ROW),
        Mistake("The numbers of the marks are exchanged: 1 begins a sentence, 2 ends it.", EXCHANGED),
        Mistake("The end mark, 2, is not looked for: stop at it, and leave it out.", ENDLESS),
    ),
    through=through_translate,
)

EXERCISES = (
    *(VAR, GRADS_OF, PROJECT, FEED, LOGITS_OF, NORM, EMBED, ATTEND, ATTENTION),
    *(SHAPES_OF, VIEWS, FIRST_VECTOR, SUBLAYERS, ENCODE, DECODE, LOSS_OF, GRADIENT_OF, UPDATE, TRANSLATE),
)
