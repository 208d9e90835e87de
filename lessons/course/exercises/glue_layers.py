"""Exercises of ``my_transformer``, steps 4 and 5: a layer's parts from the parameters, encoder and decoder."""

import numpy as np

from course.calls import Trouble, is_unfilled
from course.exercise import Exercise, Mistake
from course.exercises.glue_operations import with_names
from course.exercises.glue_vars import data_and_gradients, seen
from solutions import my_transformer as right
from solutions.my_transformer import Var

SIZES = 2, 2
"""Layers and heads."""
SHAPES = right.shapes_of(9, 2, 4, 6)


def some_vector(rng):
    """Parameters of a small model, none of them zero or one."""
    vector = right.first_vector(SHAPES, rng)
    return vector + 0.2 * rng.standard_normal(vector.shape)


def some_tokens(rng, n):
    return rng.integers(3, 9, n)


def with_one_gradient(y, cotangent, p, *inputs):
    """Data and gradients of a Var, those of the parameters in one vector and last."""
    found = seen(y, cotangent, [*inputs, *p.values()])
    if is_unfilled(found):
        return found
    data, *grads = found
    return data, *grads[: len(inputs)], np.concatenate([np.ravel(grad) for grad in grads[len(inputs) :]])


def through_parameters(*names, shapes=SHAPES, sizes=SIZES):
    """Of functions of the parameters and of inputs with these names: the data, and all gradients as one vector."""

    def through(function):
        def seen_function(vector, *arguments):
            p = right.views(vector, shapes)
            return with_one_gradient(function(p, *arguments[:-1], *sizes), arguments[-1], p)

        return with_names(seen_function, "vector", *names, "cotangent")

    return through


# -- parts of a layer -------------------------------------------------------------------------------------------------


def through_sublayers(sublayers):
    def seen_sublayers(vector, place, attentions, x, memory, cotangent):
        p, x, memory = right.views(vector, SHAPES), Var(x), Var(memory)
        parts = sublayers(p, place, SIZES[1], attentions)
        if is_unfilled(parts):
            return parts
        if not isinstance(parts, (tuple, list)) or len(parts) != len(attentions) + 2:
            raise Trouble(
                f"The result must be the attentions, here {len(attentions)}, the feed-forward layer, and the list of "
                f"norms: {len(attentions) + 2} things, got {parts if parts is None else type(parts).__name__}."
            )
        *attends, feed, norms = parts
        if not isinstance(norms, (tuple, list)) or len(norms) != len(attentions) + 1:
            raise Trouble(f"The norms come last, in a list: {len(attentions) + 1} of them, one for each sub-layer.")
        ys = [*(attend(x, memory, None) for attend in attends), feed(x), *(norm(x) for norm in norms)]
        total = ys[0]
        for y in ys[1:]:
            total = total + y
        return *(y.data for y in ys), with_one_gradient(total, cotangent, p)[1]

    return seen_sublayers


def sublayers_inputs(rng):
    for place, attentions in (("encoder 0", ["self"]), ("encoder 1", ["self"]), ("decoder 1", ["self", "cross"])):
        yield some_vector(rng), place, attentions, *rng.standard_normal((3, 3, 4))


def sublayers_with(place=lambda place: place, attentions=lambda names: names, norms=lambda norms: norms):
    def wrong(p, at, n_heads, names):
        own = [right.sublayers(p, place(at), n_heads, [name])[0] for name in attentions(names)]
        *_, feed, right_norms = right.sublayers(p, place(at), n_heads, names)
        return *own, feed, norms(right_norms)

    return wrong


SUBLAYERS = Exercise(
    "my_transformer.sublayers",
    sublayers_inputs,
    reference=right.sublayers,
    tested="three layers: what each part makes of x and memory, and the gradient of every parameter",
    mistakes=(
        Mistake(
            "All norms are the last one: a function made in a loop looks its j up when it is called. Make it in a "
            "function of j.",
            sublayers_with(norms=lambda norms: len(norms) * norms[-1:]),
        ),
        Mistake(
            "Both attentions are the last one: a function made in a loop looks its name up when it is called.",
            sublayers_with(attentions=lambda names: len(names) * names[-1:]),
        ),
        Mistake(
            "Every layer has the parameters of the first: `place` holds the layer's number.",
            sublayers_with(place=lambda place: place.replace("1", "0")),
        ),
    ),
    through=through_sublayers,
)

# -- encoder and decoder ----------------------------------------------------------------------------------------------


def stack_with(side, mask=lambda mask: mask, place=lambda i: i, layers=lambda n: n, attentions=("self", "cross")):
    """Encoder or decoder with another mask, other parameters in layer i, another number of layers or order in them."""

    def encode(p, src, n_layers, n_heads):
        x, everything = right.embed(p["table"], src), np.ones((len(src), len(src)), dtype=bool)
        for i in range(layers(n_layers)):
            x = right.encoder_layer(x, mask(everything), *right.sublayers(p, f"encoder {place(i)}", n_heads, ["self"]))
        return x

    def decode(p, tgt_in, memory, n_layers, n_heads):
        x, causal = right.embed(p["table"], tgt_in), np.tri(len(tgt_in), dtype=bool)
        for i in range(layers(n_layers)):
            parts = right.sublayers(p, f"decoder {place(i)}", n_heads, attentions)
            x = right.decoder_layer(x, memory, mask(causal), *parts)
        return right.logits_of(x, p["table"])

    return {"encoder": encode, "decoder": decode}[side]


def mistakes_of_layers(side):
    return (
        Mistake(
            "Every layer has the parameters of the first: write the layer's number i.",
            stack_with(side, place=lambda i: 0),
        ),
        Mistake("There is only one layer: repeat it n_layers times.", stack_with(side, layers=lambda n: 1)),
    )


ENCODE = Exercise(
    "my_transformer.encode",
    lambda rng: ((some_vector(rng), some_tokens(rng, n), rng.standard_normal((n, 4))) for n in (3, 5)),
    reference=right.encode,
    tested="two layers: what comes out, and the gradient of every parameter",
    parts=data_and_gradients("parameters"),
    mistakes=(
        Mistake(
            "The encoder is causal here: it may read the whole source, in both directions.",
            stack_with("encoder", mask=np.tril),
        ),
        *mistakes_of_layers("encoder"),
        Mistake(
            "Embeddings go in, and embeddings come out: no layer is applied.", stack_with("encoder", layers=lambda n: 0)
        ),
    ),
    through=through_parameters("src"),
)


def through_decode(decode):
    def seen_decode(vector, tgt_in, memory, cotangent):
        p, memory = right.views(vector, SHAPES), Var(memory)
        return with_one_gradient(decode(p, tgt_in, memory, *SIZES), cotangent, p, memory)

    return seen_decode


def decode_inputs(rng):
    for n_tgt, n_src in ((3, 2), (4, 5)):
        memory, cotangent = rng.standard_normal((n_src, 4)), rng.standard_normal((n_tgt, 9))
        yield some_vector(rng), some_tokens(rng, n_tgt), memory, cotangent


DECODE = Exercise(
    "my_transformer.decode",
    decode_inputs,
    reference=right.decode,
    tested="two layers: logits, and the gradients of every parameter and of the memory",
    parts=data_and_gradients("memory", "parameters"),
    mistakes=(
        Mistake(
            "The future leaks: self-attention of the decoder needs the causal mask.",
            stack_with("decoder", mask=np.ones_like),
        ),
        *(
            Mistake(
                "The causal mask is the wrong way round: True means that a position may be read.",
                stack_with("decoder", mask=turn),
            )
            for turn in (np.transpose, np.logical_not)
        ),
        Mistake(
            "The two attentions have each other's parameters: `decoder_layer` takes self first, then cross.",
            stack_with("decoder", attentions=("cross", "self")),
        ),
        *mistakes_of_layers("decoder"),
    ),
    through=through_decode,
)
