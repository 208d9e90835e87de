"""Exercise of lesson 9: a test that finds where a model lets the future leak."""

import numpy as np

from course.exercise import Exercise, Mistake


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
                "Where the new token already stood, nothing changes and no leak can show: take another one each time.",
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
