"""Exercises of lesson 9: encoder, decoder, the whole model."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.cross_attention import CROSS_ATTENTION_BACKWARD
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
            "The shift is backwards: with the end mark in front and the begin mark behind.",
            lambda tokens, begin, end: (joined(end, tokens), joined(tokens, begin)),
        ),
        Mistake(
            "The end mark is missing: the model never learns where to stop. Both arrays have T + 1 tokens.",
            lambda tokens, begin, end: (joined(begin, tokens[:-1]), tokens),
        ),
    ),
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

# -- leaks ------------------------------------------------------------------------------------------------------------


def model_that_leaks(rng, length, vocab_size, leaks, strength=1.0, shown=1.0):
    """A causal function of ids, but for these pairs (from, to), counted from 1, in logits that are ``shown``."""
    reads, leaking = np.tril(rng.uniform(0.5, 1.0, (length, length))), np.zeros((length, length))
    for start, end in leaks:
        leaking[end - 1, start - 1] = strength
    values = rng.standard_normal((vocab_size, vocab_size))

    def logits_of(ids):
        return np.tanh(reads @ (read := values[np.asarray(ids)]) + leaking @ (read * shown))

    return logits_of


def leaks_inputs(rng):
    for leaks, length, strength in (([], 3, 1), ([(3, 1)], 3, 1.0), ([(2, 1), (4, 2), (4, 3)], 5, 1e-10)):
        yield model_that_leaks(rng, length, 7, leaks, strength), np.array([5, 0, 6, 6, 1])[:length], 7
    each_token_once = [(2, 1), (3, 1), (4, 2)], 1.0, np.array([0.0, 0.0, 1.0])
    yield model_that_leaks(rng, 4, 3, *each_token_once), np.array([2, 0, 1, 2]), 3


def dependence(logits_of, ids, vocab_size, *, token=None, over=np.max):
    """[output position, changed token]: the largest change of a logit, or what ``over`` makes of the changes."""
    before, changes = logits_of(ids), []
    for place in range(len(ids)):
        other = ids.copy()
        other[place] = (ids[place] + 1) % vocab_size if token is None else token
        changes.append(over(np.abs(logits_of(other) - before), axis=-1))
    return np.array(changes).T


def leaks(logits_of, ids, vocab_size):
    return np.triu(dependence(logits_of, ids, vocab_size), 1) > 0


def first_wrong(function, logits_of, ids, vocab_size):
    """The first leak that is missing or too many, in words."""
    right, got = leaks(logits_of, ids, vocab_size), function(logits_of, ids, vocab_size)
    for end, start in np.argwhere(right & ~got):
        return f"The future leaks from position {start + 1} to {end + 1}, and this was not found."
    for end, start in np.argwhere(got & ~right):
        return f"A leak is reported from position {start + 1} to {end + 1}, where nothing leaks."
    return None


LEAKS = Exercise(
    "09_transformer.leaks",
    leaks_inputs,
    reference=leaks,
    tested="a model without a leak, one with a leak from position 3 to 1, one with three leaks of 1e-10, and one in "
    "which every token leaks, into a single logit",
    mistakes=(
        Mistake(
            "A position may depend on its own token: that is no leak. Mark only what lies above the diagonal.",
            lambda *inputs: np.triu(dependence(*inputs)) > 0,
        ),
        Mistake(
            "Everything that depends is marked. An earlier token may reach a later position: mark only leaks.",
            lambda *inputs: dependence(*inputs) > 0,
        ),
        Mistake(
            "These are the changes at later positions, which must be there. A leak goes back in time.",
            lambda *inputs: np.tril(dependence(*inputs), -1) > 0,
        ),
        Mistake(
            "It is transposed: the row is the position whose logits change, the column the changed token.",
            lambda *inputs: leaks(*inputs).T,
        ),
        Mistake(
            "Small leaks are missed, here of 1e-10. What may not depend is equal to the last bit: compare with 0, "
            "without a tolerance.",
            lambda *inputs: np.triu(dependence(*inputs), 1) > 1e-8,
        ),
        *(
            Mistake(
                "Where the new token stood already nothing changes, and no leak can show: take another one each time.",
                lambda logits_of, ids, vocab_size, token=token: (
                    np.triu(dependence(logits_of, ids, vocab_size, token=token % vocab_size), 1) > 0
                ),
            )
            for token in (0, 1, -1)
        ),
        *(
            Mistake(
                "A leak may show in one logit alone: mark a position if any of its logits changes.",
                lambda *inputs, over=over: np.triu(dependence(*inputs, over=over), 1) > 0,
            )
            for over in (np.min, lambda changes, axis: changes[:, 0])
        ),
        Mistake("Nothing is ever found.", lambda logits_of, ids, vocab_size: np.zeros((len(ids),) * 2, dtype=bool)),
    ),
    properties=(first_wrong,),
)

EXERCISES = (SHIFT, PARAMETERS, ENCODER_LAYER, DECODER_LAYER, CROSS_ATTENTION_BACKWARD, LEAKS)
