"""Exercises of lesson 12: exact search for the most probable output."""

import heapq
import math

import numpy as np

from course.compare import form_error
from course.exercise import Exercise, Mistake

# -- best_output ------------------------------------------------------------------------------------------------------

END = "."


MOST_CALLS = 200_000
"""So often may one search call ``after``: the longest of exact searches needs a hundredth of it."""
DEFAULT = {"a": 0.31, "b": 0.3, "c": 0.29, END: 0.1}
BY_HAND = (
    ({"": {"a": 0.9, "b": 0.05, END: 0.05}, "a": {"a": 0.9, "b": 0.05, END: 0.05}, "aa": {"b": 0.1, END: 0.9}}, 1),
    ({"": {"a": 0.9, "b": 0.05, END: 0.05}, "a": {"a": 0.9, "b": 0.05, END: 0.05}, "aa": {"b": 0.1, END: 0.9}}, 2),
    ({"": {"a": 0.4, "b": 0.35, "c": 0.2, END: 0.05}, "c": {"a": 0.01, END: 0.99}}, 3),  # a beam of 2 loses c
    # ab is more probable than bb, and bb ends better: no prefix may be dropped for another with its last letter
    (
        {
            "": {"a": 0.5, "b": 0.39, END: 0.11},
            "a": {"a": 0.2, "b": 0.6, END: 0.2},
            "b": {"a": 0.1, "b": 0.7, END: 0.2},
            "ab": {"a": 0.45, "b": 0.35, END: 0.2},
            "bb": {"a": 0.02, END: 0.98},
        },
        3,
    ),
)


class LetterModel:
    """after(text): {letter: probability}. ``of`` gives it for a text, of whose letters all must be in ``letters``."""

    __name__ = "after"

    def __init__(self, letters, of):
        self.letters, self.of, self.calls_left = letters, of, math.inf

    def __deepcopy__(self, memo):
        """What a search is given: it may not call without end."""
        copied = LetterModel(self.letters, self.of)
        copied.calls_left = MOST_CALLS
        return copied

    def __call__(self, text):
        if set(text) - set(self.letters):
            raise ValueError(f"after({text!r}): a prefix must hold only letters of {self.letters!r}")
        self.calls_left -= 1
        if self.calls_left < 0:
            raise RuntimeError(
                f"too much work: after was called {MOST_CALLS:,} times, and there are more than 6^14 outputs. "
                "Do not try them all; extend the most probable prefix first"
            )
        return self.of(text)


def random_model(rng, n_letters, sharpness, end):
    """A model whose next letter depends on the last two; ``end`` favors the end."""
    letters = "abcdef"[:n_letters]
    logits = sharpness * rng.standard_normal((n_letters + 1,) * 3)  # [last but one, last, next]
    logits[..., -1] += end
    table = np.exp(logits)
    table /= table.sum(axis=-1, keepdims=True)

    def of(text):
        before, last = ([-1, -1] + [letters.index(letter) for letter in text[-2:]])[-2:]
        return dict(zip(letters + END, table[before, last].tolist(), strict=True))

    return LetterModel(letters, of)


def rewarded_late(text):
    """Of all prefixes of one length that of f's is the least probable, and ffff ends: beams of a thousand lose it.
    No two prefixes are equally probable."""
    if text == "ffff":
        return {"a": 0.01, END: 0.99}
    shares = 1.0 + 0.05 * np.sin(1 + 7 * len(text) + np.arange(5))
    others = (0.85 - 1e-6) * shares / shares.sum()
    return {"f": 0.15, END: 1e-6} | dict(zip("abcde", others.tolist(), strict=True))


def best_output_inputs(rng):
    for told, limit in BY_HAND:
        yield LetterModel("abc", lambda text, told=told: dict(told.get(text, DEFAULT))), limit
    yield LetterModel("abcdef", rewarded_late), 4
    for n_letters, sharpness, end, limit in ((2, 1.0, -1, 1), (3, 1.5, -1, 2), (3, 2.0, -2, 4), (6, 1.2, -1, 14)):
        for _ in range(3):
            yield random_model(rng, n_letters, sharpness, end), limit


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
        return f"{error}."
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
    tested="five models by hand, twelve random ones, outputs of up to 14 of six letters, against an exact search",
    mistakes=(
        Mistake(
            "This is greedy search: it follows the most probable letter, and a less probable one may lead further.",
            beam_of(1),
        ),
        Mistake(
            "This is a beam of 2. Exact search drops a prefix only if a finished output is more probable.", beam_of(2)
        ),
        Mistake(
            "Of the prefixes with the same last letter only one is kept. That is right for a table, which depends on "
            "no other letter; this model looks further back.",
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
