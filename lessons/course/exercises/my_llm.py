"""Exercises of ``my_llm``, the glue that makes a language model of today: the whole model."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.glue_layers import some_tokens, through_parameters
from course.exercises.glue_vars import data_and_gradients
from course.exercises.llm_layers import ATTENTION, SHAPES, SHAPES_OF, SIZES, some_vector
from course.exercises.llm_parts import GATE, LOOK_UP, RMS, SHARE, TURN
from solutions import my_llm as right
from solutions.my_transformer import Var, views

# -- forward ----------------------------------------------------------------------------------------------------------


def forward_inputs(rng):
    for n in (1, 3, 4):
        yield some_vector(rng), some_tokens(rng, n), rng.standard_normal((n, 9))


def forward_with(place=lambda i: i, residual=True, last=True, post=False, norms=(0, 1)):
    """The model with other parameters in layer i, without residuals or the last norm, or with norms after the sums."""

    def forward(p, ids, n_layers, n_heads, n_shared):
        x = right.look_up(p["table"], ids)
        for i in map(place, range(n_layers)):
            own = {w: p[f"{i} {w}"] for w in "qkvo"}
            for j, sublayer in enumerate(
                (
                    lambda y, own=own: right.attention(own, y, n_heads, n_shared),
                    lambda y, i=i: right.gate(y, *(p[f"{i} {w}"] for w in ("w1", "w3", "w2"))),
                )
            ):
                gamma = p[f"{i} gamma {norms[j]}"]
                if post:
                    x = right.rms(x + sublayer(x), gamma)
                else:
                    y = sublayer(right.rms(x, gamma))
                    x = x + y if residual else y
        return right.logits_of(right.rms(x, p["gamma"]) if last else x, p["table"])

    return forward


FORWARD = Exercise(
    "my_llm.forward",
    forward_inputs,
    reference=right.forward,
    tested="logits of a model of two layers, and the gradient of every parameter",
    parts=data_and_gradients("parameters"),
    mistakes=(
        Mistake("The last norm, before the logits, is missing.", forward_with(last=False)),
        Mistake("The residual connections are missing: x + sublayer(norm(x)).", forward_with(residual=False)),
        Mistake(
            "The norms stand after the sums, as in the paper; here each stands before its sub-layer.",
            forward_with(post=True),
        ),
        Mistake("Every layer has the parameters of the first.", forward_with(place=lambda i: 0)),
        Mistake("Both norms of a layer are its first.", forward_with(norms=(0, 0))),
    ),
    through=through_parameters("ids", shapes=SHAPES, sizes=SIZES),
)

# -- loss_of and continued --------------------------------------------------------------------------------------------


def loss_with(factor=lambda n: 1.0, targets=lambda reads, targets: targets):
    def loss_of(p, text, *sizes):
        reads, right_targets = right.shift(text, 1, 2)
        logits, wanted, scale = right.forward(p, reads, *sizes), targets(reads, right_targets), factor(len(text))
        loss = scale * right.smoothed_loss(logits.data, wanted, 0.0) / len(reads)
        return Var(
            loss,
            (logits,),
            lambda grad: (right.loss_backward(scale * grad / len(reads), logits.data, wanted, 0.0),),
        )

    return loss_of


LOSS_OF = Exercise(
    "my_llm.loss_of",
    lambda rng: ((some_vector(rng), some_tokens(rng, n), 1.5) for n in (2, 5)),
    reference=right.loss_of,
    tested="means over the tokens of two texts, and the gradient of every parameter",
    parts=data_and_gradients("parameters"),
    mistakes=(
        Mistake("This is the sum over the tokens: divide by their number.", loss_with(lambda n: n + 1)),
        Mistake("The end mark is a token too: there is one more than the text has.", loss_with(lambda n: (n + 1) / n)),
        Mistake(
            "The targets are not shifted: the model must predict what comes next.",
            loss_with(targets=lambda reads, t: reads),
        ),
    ),
    through=through_parameters("text", shapes=SHAPES, sizes=SIZES),
)


def through_continued(continued):
    return lambda vector, prompt, limit: continued(views(vector, SHAPES), prompt, limit, *SIZES)


def continued_with(read=lambda text: text, begin=1, end=2, row=-1, keeps_prompt=True, extra=0):
    def continued(p, prompt, limit, *sizes):
        text = [begin, *map(int, prompt)]
        while len(text) <= limit + extra:
            token = int(right.forward(p, np.array(read(text)), *sizes).data[row].argmax())
            if token == end:
                break
            text.append(token)
        return text[1:] if keeps_prompt else text[1 + len(prompt) :]

    return continued


NEVER_ENDS = "The text must end at the end mark, 2, and without it."
WRONG = {
    "The model reads the last token alone: it must read all of the text so far.": {"read": lambda text: text[-1:]},
    "The logits of the first position are used; the next token stands in the last row.": {"row": 0},
    "The text begins with 1: the model has never read a text without it.": {"read": lambda text: text[1:]},
    "The prompt is missing: return the whole text.": {"keeps_prompt": False},
    "It is too long: the whole text has at most `limit` tokens.": {"extra": 1},
    NEVER_ENDS: {"end": -1},
}


def continued_inputs(rng):
    """Random models: one that writes up to the limit, tells all mistakes apart but one, and one that ends before."""
    limit, right_one = 6, through_continued(right.continued)
    others = {message: through_continued(continued_with(**how)) for message, how in WRONG.items()}
    endless = others.pop(NEVER_ENDS)
    while True:
        vector, prompt = some_vector(rng), some_tokens(rng, 2).tolist()
        outputs = [function(vector, prompt, limit) for function in (right_one, *others.values())]
        if len(set(map(str, outputs))) == len(outputs) and len(outputs[0]) == limit:
            yield vector, prompt, limit
            break
    while right_one(vector, prompt, limit) == endless(vector, prompt, limit):
        vector, prompt = some_vector(rng), some_tokens(rng, 2).tolist()
    yield vector, prompt, limit


CONTINUED = Exercise(
    "my_llm.continued",
    continued_inputs,
    reference=right.continued,
    tested="two prompts, with random parameters",
    mistakes=tuple(Mistake(message, continued_with(**how)) for message, how in WRONG.items()),
    through=through_continued,
)

EXERCISES = RMS, GATE, TURN, SHARE, LOOK_UP, ATTENTION, SHAPES_OF, FORWARD, LOSS_OF, CONTINUED
