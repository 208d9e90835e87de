"""Exercises of lesson 12: scores and the cache here, searches beside it."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.decoding_flops import DECODING_FLOPS
from course.exercises.decoding_searches import BEAM_STEP, GREEDY
from course.exercises.exact_search import BEST_OUTPUT
from minitransformer.config import EOS
from minitransformer.generation import Hypothesis
from minitransformer.ops.attention import attention_forward

# -- score ------------------------------------------------------------------------------------------------------------


def score(log_prob, n_words, alpha):
    return Hypothesis.from_tokens([4] * n_words + [EOS], log_prob, alpha).score


SCORE = Exercise(
    "12_decoding.score",
    lambda rng: [(-2.0, 3, 0.6), (-5.0, 10, 1.0), (-1.0, 0, 0.3)],
    reference=score,
    tested="three outputs, one of them empty, against the engine's Hypothesis",
    mistakes=(
        Mistake(
            "EOS is not counted: it is a token that the model chose, so |Y| = n_words + 1.",
            lambda log_prob, n_words, alpha: log_prob / ((5 + n_words) / 6) ** alpha,
        ),
        Mistake(
            "The log-probability is multiplied by lp(Y); divide. It is negative, so this makes long outputs worse.",
            lambda log_prob, n_words, alpha: log_prob * ((6 + n_words) / 6) ** alpha,
        ),
        Mistake(
            "The 5 and the 6 are missing: this divides by |Y|^alpha, which treats short outputs much more harshly.",
            lambda log_prob, n_words, alpha: log_prob / (n_words + 1) ** alpha,
        ),
        Mistake(
            "The 6 is missing: lp(Y) = ((5 + |Y|) / 6)^alpha, so that an output of one token has lp = 1.",
            lambda log_prob, n_words, alpha: log_prob / (6 + n_words) ** alpha,
        ),
        Mistake(
            "alpha is a factor here; it is an exponent.",
            lambda log_prob, n_words, alpha: log_prob / ((6 + n_words) / 6 * alpha),
        ),
        Mistake("The length penalty is not used.", lambda log_prob, n_words, alpha: log_prob),
    ),
)

# -- cache_bytes ------------------------------------------------------------------------------------------------------


def cache_bytes(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    return 2 * 4 * n_layers * d_model * n_sentences * (beam_size * tgt_length + src_length)


CACHE_BYTES = Exercise(
    "12_decoding.cache_bytes",
    lambda rng: [(1, 8, 1, 2, 3, 2), (2, 64, 3, 4, 20, 10), (6, 512, 32, 4, 150, 100)],
    reference=cache_bytes,
    tested="three sizes, the last one the base model's with 32 sentences and beam 4",
    mistakes=(
        Mistake("Only keys or only values are counted; both are kept.", lambda *sizes: cache_bytes(*sizes) // 2),
        Mistake("These are numbers; a float32 takes 4 bytes.", lambda *sizes: cache_bytes(*sizes) // 4),
        Mistake(
            "The source is missing: cross-attention's keys and values of src_length positions are kept too.",
            lambda *sizes: cache_bytes(*sizes[:-1], 0),
        ),
        Mistake(
            "The target is missing: self-attention's keys and values of tgt_length positions are kept.",
            lambda *sizes: cache_bytes(*sizes[:-2], 0, sizes[-1]),
        ),
        Mistake(
            "The source is counted for every partial hypothesis: those of a sentence share its keys and values.",
            lambda n_layers, d_model, n_sentences, beam_size, *lengths: cache_bytes(
                n_layers, d_model, n_sentences * beam_size, 1, *lengths
            ),
        ),
        Mistake(
            "The lengths are multiplied: that is the number of scores, which are not kept. Keys of the target and of "
            "the source are kept side by side, so the lengths add up.",
            lambda *sizes: cache_bytes(*sizes[:-2], sizes[-2] * sizes[-1], 0),
        ),
        Mistake(
            "n_layers is not used: every layer of the decoder has its own keys and values.",
            lambda n_layers, *sizes: cache_bytes(1, *sizes),
        ),
        Mistake(
            "beam_size is not used: hypotheses that share no prefix, four to a sentence with beam 4, each have a past.",
            lambda n_layers, d_model, n_sentences, beam_size, *lengths: cache_bytes(
                n_layers, d_model, n_sentences, 1, *lengths
            ),
        ),
    ),
)

# -- cached_step ------------------------------------------------------------------------------------------------------


def cached_step_inputs(rng):
    for n_heads, past, d_model, d_k in ((1, 1, 4, 2), (2, 5, 12, 3), (3, 2, 6, 5)):
        w_q, w_k, w_v = (rng.standard_normal((n_heads, d_model, d_k)) for _ in range(3))
        x = rng.standard_normal((past + 1, d_model))
        yield x[-1], x[:-1] @ w_k, x[:-1] @ w_v, w_q, w_k, w_v


def cached_step(x_t, keys, values, w_q, w_k, w_v, *, scale=1.0, own=True, key_matrix=None):
    grown = np.concatenate([keys, (x_t @ (w_k if key_matrix is None else key_matrix))[:, None]], axis=1)
    grown_values = np.concatenate([values, (x_t @ w_v)[:, None]], axis=1)
    seen = slice(grown.shape[1] - (not own))
    y, _ = attention_forward(scale * (x_t @ w_q)[:, None], grown[:, seen], grown_values[:, seen])  # (H, 1, d_k)
    return y[:, 0], grown, grown_values


def scores_of(x_t, keys, values, *matrices):
    """(H, t + 1) the scores, and both grown caches."""
    _, grown, grown_values = cached_step(x_t, keys, values, *matrices)
    return (grown @ (x_t @ matrices[0])[..., None])[..., 0] / math.sqrt(keys.shape[2]), grown, grown_values


def without_softmax(*inputs):
    scores, grown, grown_values = scores_of(*inputs)
    return (scores[:, None] @ grown_values)[:, 0], grown, grown_values


def softmax_over(axis):
    def step(*inputs):
        scores, grown, grown_values = scores_of(*inputs)
        exps = np.exp(scores - scores.max())
        return ((exps / exps.sum(axis=axis, keepdims=True))[:, None] @ grown_values)[:, 0], grown, grown_values

    return step


def in_front(x_t, keys, values, *matrices):
    y, grown, grown_values = cached_step(x_t, keys, values, *matrices)
    return y, np.roll(grown, 1, axis=1), np.roll(grown_values, 1, axis=1)


COUNT_FOR_WIDTH = (
    "The scores are divided by the root of the number of positions. With heads in front that is axis 1; d_k is the "
    "last axis."
)

CACHED_STEP = Exercise(
    "12_decoding.cached_step",
    cached_step_inputs,
    reference=lambda x_t, keys, values, w_q, w_k, w_v: cached_step(x_t, keys, values, w_q, w_k, w_v),
    tested="one to three heads and one to five earlier positions, against the engine's attention over the grown caches",
    parts=("y_t", "keys", "values"),
    mistakes=(
        Mistake(
            "The position does not attend to itself: append its key and value first, then attend.",
            lambda *inputs: cached_step(*inputs, own=False),
        ),
        Mistake(
            "The scale 1 / sqrt(d_k) is missing.",
            lambda *inputs: cached_step(*inputs, scale=math.sqrt(inputs[1].shape[2])),
        ),
        Mistake(
            "d_model where d_k belongs: the scores are divided by sqrt(d_model).",
            lambda *inputs: cached_step(*inputs, scale=math.sqrt(inputs[1].shape[2] / len(inputs[0]))),
        ),
        Mistake(
            COUNT_FOR_WIDTH,
            lambda *inputs: cached_step(*inputs, scale=math.sqrt(inputs[1].shape[2] / (inputs[1].shape[1] + 1))),
        ),
        Mistake(
            COUNT_FOR_WIDTH,
            lambda *inputs: cached_step(*inputs, scale=math.sqrt(inputs[1].shape[2] / inputs[1].shape[1])),
        ),
        Mistake(
            "The query is stored as the key: x_t W^K belongs in the cache.",
            lambda *inputs: cached_step(*inputs, key_matrix=inputs[3]),
        ),
        Mistake("The softmax is missing: the weights of a head must sum to one.", without_softmax),
        Mistake("The softmax runs over the heads; each head's weights over the positions sum to one.", softmax_over(0)),
        Mistake("One softmax runs over all heads together; each head has its own.", softmax_over(None)),
        Mistake("The new key and value stand in front of the old ones; append them at the end.", in_front),
        Mistake(
            "The caches come back as they were: the next step will not find this position.",
            lambda x_t, keys, values, *matrices: (cached_step(x_t, keys, values, *matrices)[0], keys, values),
        ),
    ),
)

EXERCISES = (SCORE, CACHE_BYTES, GREEDY, BEAM_STEP, CACHED_STEP, BEST_OUTPUT, DECODING_FLOPS)
