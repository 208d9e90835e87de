"""Exercises of lesson 9: encoder, decoder, the whole model."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.cross_attention import CROSS_ATTENTION_BACKWARD
from course.exercises.leaks import LEAKS
from course.exercises.transformer_layers import DECODER_LAYER, ENCODER_LAYER
from minitransformer.config import ModelConfig
from minitransformer.text import pad_batch

# -- shift ------------------------------------------------------------------------------------------------------------


def shift(tokens, begin, end):
    batch = pad_batch([[0]], [tokens.tolist()])  # the engine's own marks, then those asked for
    tgt_in, tgt_out = batch.tgt_in[0].copy(), batch.tgt_out[0].copy()
    tgt_in[0], tgt_out[-1] = begin, end
    return tgt_in, tgt_out


def joined(*parts):
    return np.concatenate([np.atleast_1d(part) for part in parts])


def ids_as_floats(function, *inputs):
    """Whether an embedding could not be indexed with the result."""
    if all(part.dtype.kind in "iu" for part in function(*inputs)):
        return None
    return "The result holds floats, and ids are indices of the embedding: give np.zeros and its like dtype=int."


SHIFT = Exercise(
    "09_transformer.shift",
    lambda rng: [(np.array([5]), 1, 2), (np.array([6, 9, 4]), 1, 2), (rng.integers(4, 50, 8), 3, 2)],
    reference=shift,
    tested="targets of 1, 3 and 8 tokens, against the engine's pad_batch",
    parts=("tgt_in", "tgt_out"),
    mistakes=(
        Mistake(
            "The target is not shifted: each position reads the very token that it must predict.",
            lambda tokens, begin, end: (joined(begin, tokens), joined(begin, tokens)),
        ),
        Mistake(
            "The target is not shifted: the decoder reads tokens and end mark, and must predict the same.",
            lambda tokens, begin, end: (joined(tokens, end), joined(tokens, end)),
        ),
        Mistake(
            "The two are exchanged: the decoder reads what comes after the begin mark, up to the end mark.",
            lambda tokens, begin, end: (joined(tokens, end), joined(begin, tokens)),
        ),
        Mistake(
            "`[begin] + tokens` adds begin to each token, for tokens is an array: join them with np.concatenate.",
            lambda tokens, begin, end: (begin + tokens, tokens + end),
        ),
        Mistake(
            "The shift is backwards: with the end mark first and the begin mark last.",
            lambda tokens, begin, end: (joined(end, tokens), joined(tokens, begin)),
        ),
        Mistake(
            "The end mark is missing: the model never learns where to stop. Both arrays have T + 1 tokens.",
            lambda tokens, begin, end: (joined(begin, tokens[:-1]), tokens),
        ),
    ),
    properties=(ids_as_floats,),
)

# -- parameters -------------------------------------------------------------------------------------------------------


def parameters_inputs(rng):
    yield 1, 4, 8, 2, 2, 2, 5
    yield 3, 6, 7, 3, 5, 4, 11
    row = ModelConfig.table3("B1")
    yield row.n_layers, row.d_model, row.d_ff, row.n_heads, row.d_k, row.d_v, row.vocab_size


def parameters(
    n_layers,
    d_model,
    d_ff,
    n_heads,
    d_k,
    d_v,
    vocab_size,
    *,
    tables=1,
    attentions=3,
    norms=5,
    per_norm=2,
    biases=1,
    output=1,
    heads=1,
):
    """The count, with what each mistake counts otherwise."""
    wide_k, wide_v = (n_heads if heads else 1) * d_k, (n_heads if heads else 1) * d_v
    attention = d_model * (2 * wide_k + wide_v + output * wide_v)
    feed_forward = 2 * d_model * d_ff + biases * (d_ff + d_model)
    layers = n_layers * (attentions * attention + 2 * feed_forward + norms * per_norm * d_model)
    return tables * vocab_size * d_model + layers


def attention_biases(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size):
    """A bias behind each of W^Q, W^K, W^V and W^O."""
    biases = 3 * n_layers * (n_heads * (2 * d_k + d_v) + d_model)
    return parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size) + biases


def parameters_with(**otherwise):
    return lambda *shape: parameters(*shape, **otherwise)


PARAMETERS = Exercise(
    "09_transformer.parameters",
    parameters_inputs,
    reference=lambda n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size: parameters(
        n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size
    ),
    tested="two small shapes, one with d_k other than d_v, and row B1 of Table 3",
    rtol=1e-12,
    mistakes=(
        Mistake(
            "Three matrices are counted where one serves both embeddings and the projection.", parameters_with(tables=3)
        ),
        Mistake(
            "Two matrices are counted where one serves both embeddings and the projection.", parameters_with(tables=2)
        ),
        Mistake("The embedding matrix is missing.", parameters_with(tables=0)),
        Mistake(
            "A decoder layer is counted like an encoder layer; it has a second attention, with a norm.",
            parameters_with(attentions=2, norms=4),
        ),
        Mistake(
            "Post-norm needs no norm at the end of a stack: each sub-layer ends with its own.",
            lambda n_layers, d_model, *rest: parameters(n_layers, d_model, *rest) + 4 * d_model,
        ),
        Mistake(
            "A decoder layer has two attentions: with the encoder's that makes three.", parameters_with(attentions=2)
        ),
        Mistake(
            "In each pair of layers 2 d_model numbers are missing: a norm, of which an encoder layer has two and a "
            "decoder layer three, or the second bias of both feed-forward layers.",
            parameters_with(norms=4),
        ),
        Mistake("The norms are missing: gamma and beta are learned.", parameters_with(norms=0)),
        Mistake("A norm has two vectors, gamma and beta; here it has one.", parameters_with(per_norm=1)),
        Mistake("The biases of the feed-forward layers are missing (eq. 2).", parameters_with(biases=0)),
        Mistake("Attention has no biases: section 3.2.2 has four matrices and nothing else.", attention_biases),
        Mistake("W^O is missing: it brings h d_v numbers back to d_model.", parameters_with(output=0)),
        Mistake("One head's matrices are counted; there are h of them, side by side.", parameters_with(heads=0)),
        Mistake(
            "d_model / h stands where d_k and d_v belong: Table 3 B sets them freely.",
            lambda n, d_model, d_ff, n_heads, d_k, d_v, vocab: parameters(
                n, d_model, d_ff, n_heads, d_model // n_heads, d_model // n_heads, vocab
            ),
        ),
        Mistake(
            "d_k stands where d_v belongs: W^V and W^O are as wide as h d_v.",
            lambda n, d_model, d_ff, n_heads, d_k, d_v, vocab: parameters(n, d_model, d_ff, n_heads, d_k, d_k, vocab),
        ),
    ),
)

EXERCISES = (SHIFT, PARAMETERS, ENCODER_LAYER, DECODER_LAYER, CROSS_ATTENTION_BACKWARD, LEAKS)
