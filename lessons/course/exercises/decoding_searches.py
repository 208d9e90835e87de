"""Exercises of lesson 12 that search: greedy search and a step of the beam."""

import copy

import numpy as np

from course.calls import Trouble
from course.compare import form_error, same
from course.exercise import Exercise, Mistake

# -- greedy -----------------------------------------------------------------------------------------------------------


class Step:
    """step(token): a score for each next token, as of a decoder with a cache.

    It depends on the last two tokens and on how many were given.
    """

    __name__ = "step"
    most_calls = 200

    def __init__(self, table: np.ndarray):
        self.table, self.past, self.n_given = table, (0, 0), 0

    def __call__(self, token):
        if not isinstance(token, (int, np.integer)) or not 0 <= token < self.table.shape[1]:
            raise TypeError("step takes one token, a whole number; it keeps those that it was given before")
        self.past, self.n_given = (self.past[1], int(token)), self.n_given + 1
        if self.n_given > self.most_calls:
            raise Trouble(
                f"After {self.most_calls} calls of step the search still goes on. A model may never say end: stop when "
                "the output has limit tokens, not after it."
            )
        return self.table[(self.n_given % len(self.table), *self.past)].copy()


def greedy_inputs(rng):
    """Models that end in time, are cut off, and never end; in all of the long ones it matters what step was given."""
    for n_tokens, limit, shortest, longest in ((4, 9, 1, 2), (6, 12, 3, 8), (8, 12, 4, 8), (8, 3, 3, 3), (7, 1, 1, 1)):
        outputs = []
        while not outputs or not shortest <= len(outputs[0]) <= longest or len({*map(str, outputs)}) < len(outputs):
            begin, end = rng.permutation(n_tokens)[:2].tolist()
            table = rng.standard_normal((5, n_tokens, n_tokens, n_tokens))
            table[..., begin] = -np.inf
            if limit == 3:
                table[..., end] = -np.inf
            manners = ({}, {"again": "last"}, {"again": "all"}) if shortest > 3 else ({},)
            outputs = [greedy(Step(table), begin, end, limit, **manner) for manner in manners]
        yield Step(table), begin, end, limit


def greedy(step, begin, end, limit, *, again="none", pick=np.argmax, follow=True, stop=True):
    """The tokens between ``begin`` and ``end``, with what each mistake changes."""
    step, tokens, token = copy.deepcopy(step), [], begin
    while len(tokens) < limit:
        for given in {"none": [], "last": [token], "all": [begin, *tokens][:-1]}[again]:
            step(given)
        chosen = int(pick(step(token)))
        if stop and chosen == end:
            break
        tokens.append(chosen)
        token = chosen if follow else begin
    return tokens


def ended(step, begin, end, limit):
    tokens = greedy(step, begin, end, limit)
    return tokens + [end] * (len(tokens) < limit)


GREEDY = Exercise(
    "12_decoding.greedy",
    greedy_inputs,
    reference=lambda step, begin, end, limit: greedy(step, begin, end, limit),
    tested="five models whose step remembers, two of them cut off at the limit, one of which never ends",
    mistakes=(
        Mistake(
            "step is called twice for each token. It keeps what it is given, as a cache does, so the second call reads "
            "the token once more: keep the scores of the first.",
            lambda *inputs: greedy(*inputs, again="last"),
        ),
        Mistake(
            "All tokens are given to step again at each turn. It keeps what it was given: give it the newest alone.",
            lambda *inputs: greedy(*inputs, again="all"),
        ),
        Mistake(
            "Every step is given begin: give it the token that was just chosen.",
            lambda *inputs: greedy(*inputs, follow=False),
        ),
        Mistake("The end is not looked for: stop at it.", lambda *inputs: greedy(*inputs, stop=False)),
        Mistake("The result holds end; it must stop before it.", ended),
        Mistake(
            "The result holds begin: it is what the first step is given, no part of the output.",
            lambda step, begin, *rest: [begin, *greedy(step, begin, *rest)],
        ),
        Mistake(
            "begin counts against the limit: limit tokens may follow it.",
            lambda step, begin, end, limit: greedy(step, begin, end, limit - 1),
        ),
        Mistake(
            "The output may have limit + 1 tokens; limit is the most.",
            lambda step, begin, end, limit: greedy(step, begin, end, limit + 1),
        ),
        Mistake("The worst token is chosen, not the best.", lambda *inputs: greedy(*inputs, pick=np.argmin)),
    ),
)

# -- beam_step --------------------------------------------------------------------------------------------------------


def beam_step_inputs(rng):
    yield np.array([-0.1, -3.0]), np.log([[0.2, 0.3, 0.5], [0.6, 0.25, 0.15]]), 2  # both survivors from one row
    yield np.array([-0.7, -0.9]), np.log([[0.4, 0.35, 0.25], [0.06, 0.9, 0.04]]), 2  # one from each, the second first
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
    tested="five tables, also with fewer survivors than partial hypotheses",
    parts=("parents", "tokens", "log_probs"),
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
        Mistake("The worst survive: argsort is ascending, and log-probabilities nearer to 0 are better.", worst),
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
