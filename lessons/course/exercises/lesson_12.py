"""Exercises of lesson 12: decoding."""

import heapq
import math

import numpy as np

from course.compare import form_error, same
from course.exercise import Exercise, Mistake
from course.exercises.decoding_flops import DECODING_FLOPS
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
            "The lengths are multiplied: that many scores there are, and they are not kept. Keys of the target and of "
            "the source are kept side by side, so the lengths add up.",
            lambda *sizes: cache_bytes(*sizes[:-2], sizes[-2] * sizes[-1], 0),
        ),
        Mistake(
            "n_layers is not used: every layer of the decoder has its own keys and values.",
            lambda n_layers, *sizes: cache_bytes(1, *sizes),
        ),
        Mistake(
            "beam_size is not used: hypotheses that share no prefix, four to a sentence with beam 4, have a past each.",
            lambda n_layers, d_model, n_sentences, beam_size, *lengths: cache_bytes(
                n_layers, d_model, n_sentences, 1, *lengths
            ),
        ),
    ),
)

# -- beam_step --------------------------------------------------------------------------------------------------------


def beam_step_inputs(rng):
    for n_rows, vocab_size, beam_size in ((2, 3, 2), (3, 5, 3), (4, 7, 2)):
        logits = 2 * rng.standard_normal((n_rows, vocab_size))
        next_log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        yield -np.sort(rng.uniform(0.2, 2.0, n_rows)), next_log_probs, beam_size


def best_of(totals, beam_size):
    flat = totals.reshape(-1)
    order = np.argsort(-flat, kind="stable")[:beam_size]
    return order // totals.shape[1], order % totals.shape[1], flat[order]


def beam_step(log_probs, next_log_probs, beam_size):
    return best_of(log_probs[:, None] + next_log_probs, beam_size)


def one_of_each(log_probs, next_log_probs, beam_size):
    totals = log_probs[:, None] + next_log_probs
    return best_of(np.where(totals == totals.max(axis=1, keepdims=True), totals, -np.inf), beam_size)


def of_the_best_alone(log_probs, next_log_probs, beam_size):
    return best_of(log_probs[:1, None] + next_log_probs[:1], beam_size)


def worst(log_probs, next_log_probs, beam_size):
    parents, tokens, totals = best_of(-log_probs[:, None] - next_log_probs, beam_size)
    return parents, tokens, -totals


def exchanged(*inputs):
    parents, tokens, totals = beam_step(*inputs)
    return tokens, parents, totals


def any_order(function, log_probs, next_log_probs, beam_size):
    """Whether the right survivors stand in another order."""
    expected, got = (each(log_probs, next_log_probs, beam_size) for each in (beam_step, function))
    if same(expected, got, 1e-6) or form_error(expected, got):
        return None
    order = np.argsort(-got[2], kind="stable")
    sorted_again = same(expected, tuple(part[order] for part in got), 1e-6)
    return "The survivors are right, but not best first." if sorted_again else None


def indices_as_parents(log_probs, next_log_probs, beam_size):
    parents, tokens, totals = beam_step(log_probs, next_log_probs, beam_size)
    return parents * next_log_probs.shape[1] + tokens, tokens, totals


def parents_by_rows(log_probs, next_log_probs, beam_size):
    parents, tokens, totals = beam_step(log_probs, next_log_probs, beam_size)
    indices = parents * next_log_probs.shape[1] + tokens
    return indices // len(log_probs), indices % len(log_probs), totals


BEAM_STEP = Exercise(
    "12_decoding.beam_step",
    beam_step_inputs,
    reference=beam_step,
    tested="three sizes, also with fewer survivors than partial hypotheses",
    mistakes=(
        Mistake(
            "Each partial hypothesis gives one survivor. All extensions of all of them compete: one may give several, "
            "another none.",
            one_of_each,
        ),
        Mistake(
            "The log-probability of the prefix is not added: an extension of a poor prefix counts as a good one.",
            lambda log_probs, next_log_probs, beam_size: best_of(next_log_probs, beam_size),
        ),
        Mistake(
            "Log-probabilities are multiplied; they add up, as probabilities multiply.",
            lambda log_probs, next_log_probs, beam_size: best_of(log_probs[:, None] * next_log_probs, beam_size),
        ),
        Mistake("Only the first partial hypothesis is extended; that is greedy search with spares.", of_the_best_alone),
        Mistake("The worst survive: argsort rises, and log-probabilities nearer to 0 are better.", worst),
        Mistake("parents and tokens are exchanged.", exchanged),
        Mistake(
            "The index into the flattened table is divided by the number of rows; a row has vocab_size entries.",
            parents_by_rows,
        ),
        Mistake(
            "parents holds indices into the flattened table. A row of it has vocab_size entries: divide.",
            indices_as_parents,
        ),
    ),
    properties=(any_order,),
)

# -- cached_step ------------------------------------------------------------------------------------------------------


def cached_step_inputs(rng):
    for past, d_model, d_k in ((1, 4, 2), (5, 12, 3)):
        w_q, w_k, w_v = (rng.standard_normal((d_model, d_k)) for _ in range(3))
        x = rng.standard_normal((past + 1, d_model))
        yield x[-1], x[:-1] @ w_k, x[:-1] @ w_v, w_q, w_k, w_v


def cached_step(x_t, keys, values, w_q, w_k, w_v, *, scale=1.0, own=True, key_matrix=None):
    grown = np.concatenate([keys, [x_t @ (w_k if key_matrix is None else key_matrix)]])
    grown_values = np.concatenate([values, [x_t @ w_v]])
    seen = len(grown) if own else len(keys)
    y, _ = attention_forward(scale * (x_t @ w_q)[None], grown[:seen], grown_values[:seen])
    return y[0], grown, grown_values


def without_softmax(x_t, keys, values, w_q, w_k, w_v):
    _, grown, grown_values = cached_step(x_t, keys, values, w_q, w_k, w_v)
    return grown @ (x_t @ w_q) / math.sqrt(keys.shape[1]) @ grown_values, grown, grown_values


def in_front(x_t, keys, values, *matrices):
    y, grown, grown_values = cached_step(x_t, keys, values, *matrices)
    return y, np.roll(grown, 1, axis=0), np.roll(grown_values, 1, axis=0)


CACHED_STEP = Exercise(
    "12_decoding.cached_step",
    cached_step_inputs,
    reference=lambda x_t, keys, values, w_q, w_k, w_v: cached_step(x_t, keys, values, w_q, w_k, w_v),
    tested="one and five earlier positions, against the engine's attention over the grown keys and values",
    mistakes=(
        Mistake(
            "The position does not attend to itself: append its key and value first, then attend.",
            lambda *inputs: cached_step(*inputs, own=False),
        ),
        Mistake(
            "The scale 1 / sqrt(d_k) is missing.",
            lambda *inputs: cached_step(*inputs, scale=math.sqrt(inputs[1].shape[1])),
        ),
        Mistake(
            "d_model where d_k belongs: the scores are divided by sqrt(d_model).",
            lambda *inputs: cached_step(*inputs, scale=math.sqrt(inputs[1].shape[1] / len(inputs[0]))),
        ),
        Mistake(
            "The query is stored as the key: x_t W^K belongs into the cache.",
            lambda *inputs: cached_step(*inputs, key_matrix=inputs[3]),
        ),
        Mistake("The softmax is missing: the weights must sum to one.", without_softmax),
        Mistake("The new key and value stand in front of the old ones; append them at the end.", in_front),
        Mistake(
            "The caches come back as they were: the next step will not find this position.",
            lambda x_t, keys, values, *matrices: (cached_step(x_t, keys, values, *matrices)[0], keys, values),
        ),
    ),
)

# -- best_output ------------------------------------------------------------------------------------------------------

END = "."


def letter_model(rng, n_letters, sharpness, end):
    """after(text) of a random model whose next letter depends on the last two; ``end`` favours the end."""
    letters = "abcdef"[:n_letters]
    logits = sharpness * rng.standard_normal(
        (n_letters + 1, n_letters + 1, n_letters + 1)
    )  # [last but one, last, next]
    logits[..., -1] += end
    table = np.exp(logits)
    table /= table.sum(axis=-1, keepdims=True)

    def after(text):
        if set(text) - set(letters):
            raise ValueError(f"after({text!r}): a prefix must hold only letters of {letters!r} alone")
        before, last = ([-1, -1] + [letters.index(letter) for letter in text])[-2:]
        return dict(zip(letters + END, table[before, last].tolist(), strict=True))

    return after


def best_output_inputs(rng):
    for n_letters, sharpness, end, limit in ((2, 1.0, -1, 1), (3, 1.5, -1, 2), (3, 2.0, -2, 4), (6, 1.2, -1, 14)):
        for _ in range(3):
            yield letter_model(rng, n_letters, sharpness, end), limit


def best_output(after, limit, merged=False):
    """Best first. ``merged`` is a mistake: of prefixes with one length and one last letter only the best is kept."""
    heap, seen = [(0.0, "")], set()
    while True:
        cost, text = heapq.heappop(heap)
        if text.endswith(END):
            return text[:-1], -cost
        if merged and (len(text), text[-1:]) in seen:
            continue
        seen.add((len(text), text[-1:]))
        for letter, p in after(text).items():
            if letter == END or len(text) < limit:
                heapq.heappush(heap, (cost - math.log(p), text + letter))


def beam_of(size):
    """A beam without length penalty; whatever it finds that has ended counts."""

    def search(after, limit):
        alive, finished = [(0.0, "")], []
        for step in range(limit + 1):
            extended = [
                (log_prob + math.log(p), text + letter)
                for log_prob, text in alive
                for letter, p in after(text).items()
                if letter == END or step < limit
            ]
            kept = sorted(extended, reverse=True)[:size]
            finished += [each for each in kept if each[1].endswith(END)]
            alive = [each for each in kept if not each[1].endswith(END)]
        log_prob, text = max(finished)
        return text[:-1], log_prob

    return search


def ln_p(after, text):
    return sum(math.log(after(text[:i])[letter]) for i, letter in enumerate(text + END))


def is_an_output(function, after, limit):
    answer = function(after, limit)
    error = form_error(("", 0.0), answer)
    if error:
        return f"{error[0].upper()}{error[1:]}."
    text = answer[0]
    if len(text) > limit:
        return f"{text!r} has {len(text)} letters; at most limit = {limit} may stand before the end."
    unknown = set(text) - set(after("")) | set(text) & {END}
    return f"{text!r} holds {min(unknown)!r}; give the letters alone." if unknown else None


def has_its_log_probability(function, after, limit):
    text, log_prob = function(after, limit)
    true = ln_p(after, text)
    if abs(true - log_prob) > 1e-6:
        return f"The output {text!r} has ln P = {true:.4f} with its end, and the function returns {log_prob:.4f}."
    return None


def is_the_best(function, after, limit):
    text, log_prob = function(after, limit)
    best, best_log_prob = best_output(after, limit)
    if log_prob < best_log_prob - 1e-6:
        return (
            f"The output {text!r} has ln P = {log_prob:.4f}; {best!r} has {best_log_prob:.4f}, which is more. "
            f"limit = {limit}."
        )
    return None


BEST_OUTPUT = Exercise(
    "12_decoding.best_output",
    best_output_inputs,
    reference=best_output,
    tested="twelve random models of up to six letters, up to 14 letters long, against an exact search",
    mistakes=(
        Mistake(
            "This is greedy search: it follows the most probable letter, and a less probable one may lead further.",
            beam_of(1),
        ),
        Mistake(
            "This is a beam of 2. Exact search drops a prefix only if a finished output is more probable.",
            beam_of(2),
        ),
        Mistake(
            "Of the prefixes with the same last letter only one is kept. That is right for a table, which depends on "
            "no other; this model looks further back.",
            lambda after, limit: best_output(after, limit, merged=True),
        ),
        Mistake(
            "The first output that is found is returned, the empty one. A prefix that waits may still lead to a "
            "better one: an output is the best when it comes out of the heap, not when it goes in.",
            lambda after, limit: ("", math.log(after("")[END])),
        ),
        Mistake(
            "The end counts against the limit: limit letters may stand before it.",
            lambda after, limit: best_output(after, limit - 1),
        ),
        Mistake(
            "The text holds its end; give the letters alone.",
            lambda after, limit: (best_output(after, limit)[0] + END, best_output(after, limit)[1]),
        ),
        Mistake(
            "The second part is a probability; give its logarithm.",
            lambda after, limit: (best_output(after, limit)[0], math.exp(best_output(after, limit)[1])),
        ),
        Mistake(
            "The second part has the wrong sign: the logarithm of a probability is negative.",
            lambda after, limit: (best_output(after, limit)[0], -best_output(after, limit)[1]),
        ),
        Mistake(
            "The end is missing in ln P: its probability is a factor too.",
            lambda after, limit: (
                best_output(after, limit)[0],
                best_output(after, limit)[1] - math.log(after(best_output(after, limit)[0])[END]),
            ),
        ),
    ),
    properties=(is_an_output, has_its_log_probability, is_the_best),
)

EXERCISES = (SCORE, CACHE_BYTES, BEAM_STEP, CACHED_STEP, BEST_OUTPUT, DECODING_FLOPS)
