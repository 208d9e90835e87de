"""Exercises of lesson 17: sums over ranks, in order and round a ring."""

import numpy as np

from course.exercise import Exercise, Mistake

# -- ordered_sum ------------------------------------------------------------------------------------------------------


def arrivals_inputs(rng):
    """Two small arrays; then large ones, whose sums differ from order to order in their last bits."""
    yield ([(rank, rng.standard_normal(3)) for rank in (1, 0)],)
    for order in ((2, 0, 1), (1, 3, 0, 2)):
        yield ([(rank, rng.standard_normal(40) * 10.0 ** rng.integers(-6, 7, 40)) for rank in order],)


def in_order(arrivals):
    total = np.zeros_like(arrivals[0][1])
    for _, array in sorted(arrivals, key=lambda arrival: arrival[0]):
        total = total + array
    return total


def has_the_same_bits(function, arrivals):
    """Every order of arrival gives the same bits, where the sum is right up to rounding."""
    if not np.allclose(function(list(arrivals)), in_order(arrivals)):
        return None
    for turn in range(1, len(arrivals)):
        other = [*arrivals[turn:], *arrivals[:turn]]
        for order in (other, other[::-1]):
            if not np.array_equal(function(list(order)), function(list(arrivals))):
                return (
                    "The sum is right up to rounding, but another order of arrival gives other last bits: "
                    "add in the order of the ranks."
                )
    return None


ORDERED_SUM = Exercise(
    "17_ranks.ordered_sum",
    arrivals_inputs,
    reference=in_order,
    tested="two to four arrays, which arrive in every rotation, forwards and backwards, and must give the same bits",
    mistakes=(
        Mistake("This is the mean; the sum is asked for.", lambda arrivals: in_order(arrivals) / len(arrivals)),
        Mistake(
            "The first array to arrive is missing in the sum.",
            lambda arrivals: in_order([(rank, array * (i > 0)) for i, (rank, array) in enumerate(arrivals)]),
        ),
        Mistake(
            "Rank 0's array is missing in the sum.",
            lambda arrivals: in_order([(rank, array * (rank > 0)) for rank, array in arrivals]),
        ),
        Mistake(
            "The last rank's array is missing in the sum.",
            lambda arrivals: in_order([(rank, array * (rank < len(arrivals) - 1)) for rank, array in arrivals]),
        ),
    ),
    properties=(has_the_same_bits,),
)

# -- ring_step --------------------------------------------------------------------------------------------------------


def ring_inputs(rng):
    for n in (2, 3, 4):
        for step in range(2 * (n - 1)):
            yield rng.standard_normal((n, n, 2)), step


def ring_with(
    sent=lambda rank, step, n: rank - step,
    receiver=lambda rank: rank + 1,
    adds=lambda step, n: step < n - 1,
):
    """A step that sends another slice, to another rank, or adds in other steps."""

    def ring_step(slices, step):
        n, after = len(slices), slices.copy()
        for rank in range(n):
            i, to = sent(rank, step, n) % n, receiver(rank) % n
            after[to, i] = slices[rank, i] + (after[to, i] if adds(step, n) else 0.0)
        return after

    return ring_step


RING_STEP = Exercise(
    "17_ranks.ring_step",
    ring_inputs,
    reference=ring_with(),
    tested="two to four ranks, every step of both halves",
    mistakes=(
        Mistake(
            "In the second half a finished slice is copied; here it is added once more.",
            ring_with(adds=lambda s, n: True),
        ),
        Mistake(
            "In the first half the receiver adds what comes to its own; here it is replaced.",
            ring_with(adds=lambda s, n: False),
        ),
        Mistake(
            "The second half begins one step too late: after n - 1 steps each slice is finished on one rank.",
            ring_with(adds=lambda step, n: step < n),
        ),
        Mistake(
            "The second half begins one step too early: a slice meets its last rank in step n - 2.",
            ring_with(adds=lambda step, n: step < n - 2),
        ),
        Mistake(
            "Each rank sends its own slice in every step; in step t it is slice r - t, which it received last.",
            ring_with(sent=lambda rank, step, n: rank),
        ),
        Mistake("The slice to send is r - t, not r + t.", ring_with(sent=lambda rank, step, n: rank + step)),
        Mistake(
            "Every rank sends slice t; then each slice would move only one step. Rank r sends slice r - t.",
            ring_with(sent=lambda rank, step, n: step),
        ),
        Mistake("The slices go to the rank before; rank r sends to r + 1.", ring_with(receiver=lambda rank: rank - 1)),
        Mistake(
            "Rank r sends slice r - t and receives slice r - 1 - t; here they are r + 1 - t and r - t.",
            ring_with(sent=lambda rank, step, n: rank + 1 - step),
        ),
        Mistake(
            "In the second half t continues from n - 1, and rank r still sends slice r - t; here t begins again at 0.",
            ring_with(sent=lambda rank, step, n: rank - step % (n - 1)),
        ),
    ),
)
