"""Exercises of lesson 9: the wiring of an encoder layer and of a decoder layer."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.more_sources import right_only_for_as_many
from minitransformer.nn.decoder import causal_mask
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.layer_norm import layer_norm_forward


def attention_with(w_q, w_k, w_v):
    def attention(x, memory, mask):
        return attention_forward(x @ w_q, memory @ w_k, memory @ w_v, mask=mask)[0]

    return attention


def feed_forward_with(w1, w2):
    return lambda x: np.maximum(0.0, x @ w1) @ w2


def norm_with(gamma, beta):
    return lambda x: layer_norm_forward(x, gamma, beta)[0]


def random_parts(rng, d_model, n_attentions, n_norms):
    """Attentions, a feed-forward layer and norms, all different."""
    attentions = [attention_with(*rng.standard_normal((3, d_model, d_model))) for _ in range(n_attentions)]
    feed_forward = feed_forward_with(rng.standard_normal((d_model, 8)), rng.standard_normal((8, d_model)))
    norms = [norm_with(rng.uniform(0.5, 2.0, d_model), rng.standard_normal(d_model)) for _ in range(n_norms)]
    return *attentions, feed_forward, norms


# -- encoder_layer ----------------------------------------------------------------------------------------------------


def encoder_layer_inputs(rng):
    for length, n_padding, d_model in ((3, 1, 4), (5, 2, 6)):
        real = np.arange(length) < length - n_padding
        yield rng.standard_normal((length, d_model)), real[None, :], *random_parts(rng, d_model, 1, 2)


def encoder_layer(x, mask, self_attention, feed_forward, norms):
    x = norms[0](x + self_attention(x, x, mask))
    return norms[1](x + feed_forward(x))


def encoder_pre_norm(x, mask, self_attention, feed_forward, norms):
    y = norms[0](x)
    x = x + self_attention(y, y, mask)
    return x + feed_forward(norms[1](x))


def encoder_with_sums(first, second):
    """The layer with these factors of x in its two sums."""

    def wrong(x, mask, self_attention, feed_forward, norms):
        x = norms[0](first * x + self_attention(x, x, mask))
        return norms[1](second * x + feed_forward(x))

    return wrong


def encoder_sublayers_norm(x, mask, self_attention, feed_forward, norms):
    x = x + norms[0](self_attention(x, x, mask))
    return x + norms[1](feed_forward(x))


def side_by_side(x, mask, self_attention, feed_forward, norms):
    return norms[1](norms[0](x + self_attention(x, x, mask)) + feed_forward(x))


def sum_of_layers_input(x, mask, self_attention, feed_forward, norms):
    return norms[1](x + feed_forward(norms[0](x + self_attention(x, x, mask))))


ENCODER_LAYER = Exercise(
    "09_transformer.encoder_layer",
    encoder_layer_inputs,
    reference=encoder_layer,
    tested="two sizes with padding, random sub-layers and random gamma and beta",
    mistakes=(
        Mistake(
            "The mask is not used: words attend to padding.", lambda x, mask, *parts: encoder_layer(x, None, *parts)
        ),
        Mistake(
            "The mask is turned around: True means that a position may be attended to.",
            lambda x, mask, *parts: encoder_layer(x, ~mask, *parts),
        ),
        Mistake(
            "The mask is causal here. An encoder reads the whole source, backwards too.",
            lambda x, mask, *parts: encoder_layer(x, mask & np.tri(len(x), dtype=bool), *parts),
        ),
        Mistake("This is pre-norm. As printed, the norm takes the sum: LayerNorm(x + Sublayer(x)).", encoder_pre_norm),
        Mistake("The residual sums are missing.", encoder_with_sums(0, 0)),
        Mistake("The residual sum around self-attention is missing.", encoder_with_sums(0, 1)),
        Mistake("The residual sum around the feed-forward layer is missing.", encoder_with_sums(1, 0)),
        Mistake(
            "The second sum has the layer's input in it; it must take what the first sub-layer gave.",
            sum_of_layers_input,
        ),
        Mistake("The norm takes the sub-layer's output alone; it belongs around the sum.", encoder_sublayers_norm),
        Mistake("The feed-forward layer reads the layer's input; it must read what the first norm gave.", side_by_side),
        Mistake(
            "One norm serves both sub-layers: each has a gamma and a beta of its own.",
            lambda x, mask, self_attention, feed_forward, norms: encoder_layer(
                x, mask, self_attention, feed_forward, [norms[0], norms[0]]
            ),
        ),
    ),
)

# -- decoder_layer ----------------------------------------------------------------------------------------------------


def decoder_layer_inputs(rng):
    for length, d_model in ((3, 4), (5, 6)):  # as many sources: exchanged arguments then give an answer, with a name
        x, memory = rng.standard_normal((2, length, d_model))
        yield x, memory, causal_mask(length, np)[0, 0], *random_parts(rng, d_model, 2, 3)


def decoder_layer(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    x = norms[0](x + self_attention(x, x, causal))
    x = norms[1](x + cross_attention(x, memory, None))
    return norms[2](x + feed_forward(x))


def crossing_first(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    x = norms[0](x + cross_attention(x, memory, None))
    x = norms[1](x + self_attention(x, x, causal))
    return norms[2](x + feed_forward(x))


def pre_norm(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    y = norms[0](x)
    x = x + self_attention(y, y, causal)
    x = x + cross_attention(norms[1](x), memory, None)
    return x + feed_forward(norms[2](x))


def layer_with(residuals=(1, 1, 1), places=(0, 1, 2), crosses=True):
    """The layer with these factors of the residual sums, these norms, and with cross-attention or without."""

    def wrong(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
        first, second, third = (norms[place] for place in places)
        x = first(residuals[0] * x + self_attention(x, x, causal))
        if crosses:
            x = second(residuals[1] * x + cross_attention(x, memory, None))
        return third(residuals[2] * x + feed_forward(x))

    return wrong


def sublayers_norm(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    x = x + norms[0](self_attention(x, x, causal))
    x = x + norms[1](cross_attention(x, memory, None))
    return x + norms[2](feed_forward(x))


def crossing_with(change):
    """The layer, but its cross-attention is called with ``change(x, memory, causal)``."""

    def wrong(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
        def changed(y, memory, mask):
            return cross_attention(*change(y, memory, causal))

        return decoder_layer(x, memory, causal, self_attention, changed, feed_forward, norms)

    return wrong


def other_number_of_sources(function, x, memory, *rest):
    longer = np.concatenate([memory, memory[:2] - 1.0])
    sentence = "With as many sources as targets it is right, and with two sources more it is not."
    return right_only_for_as_many(function, decoder_layer, (x, memory, *rest), (x, longer, *rest), sentence)


DECODER_LAYER = Exercise(
    "09_transformer.decoder_layer",
    decoder_layer_inputs,
    reference=decoder_layer,
    tested="two sizes with random sub-layers and random gamma and beta, with as many sources as targets and with more",
    mistakes=(
        Mistake(
            "The future leaks: self-attention needs the causal mask.",
            lambda x, memory, causal, *rest: decoder_layer(x, memory, np.ones_like(causal), *rest),
        ),
        *(
            Mistake(
                "The causal mask is the wrong way round: True means that a position may attend to another.",
                lambda x, memory, causal, *rest, turn=turn: decoder_layer(x, memory, turn(causal), *rest),
            )
            for turn in (np.transpose, np.logical_not)
        ),
        Mistake(
            "Cross-attention has the causal mask. Every target position may read the whole source, so pass None.",
            crossing_with(lambda y, memory, causal: (y, memory, causal)),
        ),
        Mistake(
            "The arguments of cross-attention are exchanged: here the memory asks, and the decoder must.",
            crossing_with(lambda y, memory, causal: (memory, y, None)),
        ),
        Mistake(
            "Cross-attention reads x twice: its keys and values must come from the memory, or the source is not used.",
            crossing_with(lambda y, memory, causal: (y, y, None)),
        ),
        Mistake("Cross-attention stands before self-attention; section 3.1 has it second.", crossing_first),
        Mistake("This is pre-norm. As printed, the norm takes the sum: LayerNorm(x + Sublayer(x)).", pre_norm),
        Mistake("The residual sums are missing.", layer_with(residuals=(0, 0, 0))),
        Mistake("The residual sum around self-attention is missing.", layer_with(residuals=(0, 1, 1))),
        Mistake("The residual sum around cross-attention is missing.", layer_with(residuals=(1, 0, 1))),
        Mistake("The residual sum around the feed-forward layer is missing.", layer_with(residuals=(1, 1, 0))),
        Mistake(
            "One norm serves all sub-layers: each has a gamma and a beta of its own.", layer_with(places=(0, 0, 0))
        ),
        Mistake("Cross-attention is missing: the source is not read.", layer_with(crosses=False)),
        Mistake(
            "Self-attention reads the memory: its keys and values, like its queries, come from x.",
            lambda x, memory, causal, self_attention, *rest: decoder_layer(
                x, memory, causal, lambda y, _, mask: self_attention(y, memory, mask), *rest
            ),
        ),
        Mistake("The norm takes the sub-layer's output alone; it belongs around the sum.", sublayers_norm),
    ),
    properties=(other_number_of_sources,),
)
