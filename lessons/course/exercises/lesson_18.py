"""Exercises of lesson 18: half precision."""

import math

import numpy as np

from course.exercise import Exercise, Mistake

# -- bfloat16 ---------------------------------------------------------------------------------------------------------


def bfloat16_inputs(rng):
    yield (np.array([1.0, 3.14159, -0.1, 0.0]),)
    yield (np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8), 258.0 + 1.0]),)  # halfway: to the even neighbor
    yield (np.array([255.9, 1.999, -511.9, 2.0**-20 * 1.999]),)  # up to the next power of two
    yield (rng.standard_normal((3, 4)) * 10.0 ** rng.integers(-20, 20, (3, 4)),)


def rounded_to(n_digits, how=np.round, spacing=None):
    """To ``n_digits`` binary digits, or to multiples of ``spacing``."""

    def rounded(x):
        steps = spacing or 2.0 ** (np.frexp(x)[1] - n_digits)
        return how(x / steps) * steps

    return rounded


BFLOAT16 = Exercise(
    "18_half_precision.bfloat16",
    bfloat16_inputs,
    reference=rounded_to(8),
    tested="numbers from 1e-20 to 1e20, halves between two neighbors, numbers just below a power of two, and 0",
    rtol=1e-12,
    mistakes=(
        Mistake("This cuts digits off; the nearest number may be above.", rounded_to(8, np.trunc)),
        Mistake("This always rounds up.", rounded_to(8, np.ceil)),
        Mistake("This always rounds down.", rounded_to(8, np.floor)),
        Mistake(
            "Halfway between two neighbors the even one is taken; here it is the larger.",
            rounded_to(8, lambda x: np.floor(x + 0.5)),
        ),
        Mistake(
            "Halfway between two neighbors the even one is taken; here it is the one farther from 0.",
            rounded_to(8, lambda x: np.trunc(x + 0.5 * np.sign(x))),
        ),
        Mistake("One digit too many: 8 in all, and the leading 1 is one of them.", rounded_to(9)),
        Mistake("One digit too few: 7 after the leading 1.", rounded_to(7)),
        Mistake("These are the 11 digits of float16.", rounded_to(11)),
        Mistake("This is float16: more digits than bfloat16, and a narrower range.", lambda x: x.astype(np.float16)),
        Mistake(
            "This is a fixed spacing of 2^-7. The spacing grows with the number: eight digits, wherever they begin.",
            rounded_to(8, spacing=2.0**-7),
        ),
    ),
)

# -- stalls_at --------------------------------------------------------------------------------------------------------

STALLS_AT = Exercise(
    "18_half_precision.stalls_at",
    lambda rng: [(1.0, 11), (1.0, 8), (0.25, 11), (2.0**-10, 8), (16.0, 12), (0.5, 3)],
    reference=lambda x, n_digits: x * 2.0**n_digits,
    tested="numbers from 1/1024 to 16 in 3 to 12 digits",
    rtol=1e-12,
    mistakes=(
        Mistake(
            "The sum still grows there: its neighbors are x apart. It stalls where they are 2 x apart.",
            lambda x, n_digits: x * 2.0 ** (n_digits - 1),
        ),
        Mistake(
            "It has stalled before that: where neighbors are 2 x apart, x ends halfway, and the sum is the even one.",
            lambda x, n_digits: x * 2.0 ** (n_digits + 1),
        ),
        Mistake("One more addition is exact: a power of two needs one digit.", lambda x, n: x * (2.0**n - 1)),
        Mistake("This is the first sum that cannot be held; it is rounded back.", lambda x, n: x * (2.0**n + 1)),
        Mistake("This is right for x = 1; a larger x goes further.", lambda x, n_digits: 2.0**n_digits),
        Mistake("A larger x goes further, not less far.", lambda x, n_digits: 2.0**n_digits / x),
    ),
)

# -- loss_scale -------------------------------------------------------------------------------------------------------


def gradients(rng):
    yield (np.array([1.0, 0.5]),)
    yield (np.array([1e-3, -4.1, 2e-6]),)
    yield (np.array([3e-9, 2e-8]),)
    yield (rng.standard_normal((4, 5)) * 1e-5,)
    yield (np.array([0.25, -0.49999]),)  # just below a power of two
    yield (np.array([1e6, -3e5]),)


def power_of_two(x, how=math.floor):
    return 2.0 ** how(math.log2(x))


LOSS_SCALE = Exercise(
    "18_half_precision.loss_scale",
    gradients,
    reference=lambda grads: power_of_two(65504 / np.abs(grads).max()),
    tested="gradients from 1e-9 to 1e6, of both signs",
    rtol=1e-12,
    mistakes=(
        Mistake("The largest number of float16 is 65504, not 65536.", lambda g: power_of_two(65536 / np.abs(g).max())),
        Mistake("A power of two is asked for: it changes no digit.", lambda g: 65504 / np.abs(g).max()),
        Mistake(
            "This is rounded up, and the largest gradient overflows.",
            lambda g: power_of_two(65504 / np.abs(g).max(), math.ceil),
        ),
        Mistake("Negative gradients overflow too: take the absolute values.", lambda g: power_of_two(65504 / g.max())),
        Mistake(
            "The largest gradient sets the limit, not the smallest.", lambda g: power_of_two(65504 / np.abs(g).min())
        ),
        Mistake("This is the largest gradient's own power of two.", lambda g: power_of_two(np.abs(g).max())),
        Mistake(
            "This is the exponent; the scale is two to that power.",
            lambda g: math.log2(power_of_two(65504 / np.abs(g).max())),
        ),
        Mistake(
            "A largest gradient just below a power of two overflows: 65504 is less than 2^16.",
            lambda g: 2.0**15 / power_of_two(np.abs(g).max()),
        ),
        Mistake(
            "`int` cuts towards 0, and a negative exponent becomes too large: take the floor.",
            lambda g: power_of_two(65504 / np.abs(g).max(), int),
        ),
        Mistake(
            "Gradients may be too large as they are: then the scale is below 1.",
            lambda g: max(1.0, power_of_two(65504 / np.abs(g).max())),
        ),
    ),
)

# -- adapted ----------------------------------------------------------------------------------------------------------


def adapted_with(growth=2.0, fall=2.0, after=2000, kept=lambda good_updates: 0, restart=True):
    """The rule with other factors, another patience, or a count that goes on after an overflow or a doubling."""

    def adapted(scale, good_updates, is_finite):
        if not is_finite:
            return scale / fall, kept(good_updates)
        if good_updates + 1 == after:
            return scale * growth, 0 if restart else good_updates + 1
        return scale, good_updates + 1

    return adapted


ADAPTED = Exercise(
    "18_half_precision.adapted",
    lambda rng: [
        (2.0**15, 0, True),
        (2.0**15, 1998, True),
        (2.0**15, 1999, True),
        (2.0**15, 700, False),
        (4.0, 1999, False),
    ],
    reference=adapted_with(),
    tested="good updates and overflows, before the 2,000th good update in a row and at it",
    parts=("scale", "good updates"),
    mistakes=(
        Mistake("After an overflow counting begins again at 0.", adapted_with(kept=lambda n: n)),
        Mistake(
            "The update that overflowed is not a good one: after it the count is 0.", adapted_with(kept=lambda n: 1)
        ),
        Mistake("An update that overflowed was counted as a good one.", adapted_with(kept=lambda n: n + 1)),
        Mistake(
            "An overflow doubled the scale: ask first whether the gradient is finite.",
            lambda scale, n, is_finite: adapted_with()(scale, n, is_finite or n + 1 == 2000),
        ),
        Mistake("After a doubling counting begins again at 0.", adapted_with(restart=False)),
        Mistake("The scale is never doubled.", adapted_with(growth=1.0)),
        Mistake("The scale is never halved.", adapted_with(fall=1.0)),
        Mistake("It doubles one update too late: this update is one of the 2,000.", adapted_with(after=2001)),
        Mistake("It doubles one update too early.", adapted_with(after=1999)),
        Mistake("An overflow makes the scale smaller; here it is doubled.", adapted_with(fall=0.5)),
    ),
)

# -- stochastic -------------------------------------------------------------------------------------------------------


def stochastic_inputs(rng):
    yield np.array([0.3, -0.3, 1.0, 0.0, 0.75]), 1.0, np.array([0.9, 0.9, 0.5, 0.99, 0.25])
    yield np.array([0.3, -0.3, 2.5, -2.5]), 0.5, np.array([0.1, 0.1, 0.6, 0.2])
    yield rng.standard_normal((4, 5)), 2.0**-4, rng.random((4, 5))


def down_or_up(goes_up):
    return lambda x, spacing, u: np.where(goes_up(x / spacing - np.floor(x / spacing), u), *up_and_down(x, spacing))


def up_and_down(x, spacing):
    return (np.floor(x / spacing) + 1) * spacing, np.floor(x / spacing) * spacing


STOCHASTIC = Exercise(
    "18_half_precision.stochastic",
    stochastic_inputs,
    reference=lambda x, spacing, u: np.floor(x / spacing + u) * spacing,
    tested="numbers of both signs, some of them multiples already, one whose u decides by a hair, with three spacings",
    mistakes=(
        Mistake(
            "Going up where u is below the remainder is just as probable; here go up where u is at least 1 minus it.",
            down_or_up(lambda rest, u: u < rest),
        ),
        Mistake("Where u is just 1 minus the remainder, go up.", down_or_up(lambda rest, u: u > 1.0 - rest)),
        Mistake("This is the nearest multiple: u is not used.", lambda x, s, u: np.round(x / s) * s),
        Mistake("This always rounds down.", lambda x, s, u: np.floor(x / s) * s),
        Mistake(
            "The remainder is counted in spacings: divide it by the spacing.",
            lambda x, s, u: (np.floor(x / s) + (u >= 1.0 - (x - np.floor(x / s) * s))) * s,
        ),
        Mistake(
            "Negative numbers are rounded towards 0: take the multiple below, floor, not trunc.",
            lambda x, s, u: np.trunc(x / s + u) * s,
        ),
        *(
            Mistake(
                "Up and down are exchanged: what is near the multiple above must mostly go up.", down_or_up(goes_up)
            )
            for goes_up in (lambda rest, u: u >= rest, lambda rest, u: u < 1.0 - rest)
        ),
        Mistake(
            "Up and down have the same probability here; that of going up must be the remainder.",
            lambda x, s, u: np.where(u < 0.5, np.floor(x / s), np.ceil(x / s)) * s,
        ),
        Mistake("This rounds to whole numbers: divide by the spacing first.", lambda x, s, u: np.floor(x + u)),
        Mistake("The multiple of the spacing is asked for, not its number.", lambda x, s, u: np.floor(x / s + u)),
    ),
)

EXERCISES = (BFLOAT16, STALLS_AT, LOSS_SCALE, ADAPTED, STOCHASTIC)
