"""Exercises of lesson 13: BLEU."""

import re

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.corpus_bleu import CLIPPED_COUNTS, CORPUS

# -- brevity_penalty --------------------------------------------------------------------------------------------------


def brevity_penalty_inputs(rng):
    yield [4], [[5]]
    yield [8], [[5]]
    yield [6], [[7, 5]]
    yield [6, 8], [[5, 7], [10]]
    yield [2, 9], [[5], [3]]
    yield [9, 3], [[5, 10], [8]]
    for _ in range(4):
        yield rng.integers(5, 12, 3).tolist(), rng.integers(4, 16, (3, 2)).tolist()


def closest(length, options):
    return min(options, key=lambda option: (abs(option - length), option))


def penalty_with(choose=closest, formula=lambda c, r: min(1.0, np.exp(1 - r / c))):
    def penalty(lengths, reference_lengths):
        chosen = [choose(length, options) for length, options in zip(lengths, reference_lengths, strict=True)]
        return formula(sum(lengths), sum(chosen))

    return penalty


def mean_of_penalties(lengths, reference_lengths):
    each = zip(lengths, reference_lengths, strict=True)
    return float(np.mean([penalty_with()([length], [options]) for length, options in each]))


BREVITY_PENALTY = Exercise(
    "13_bleu.brevity_penalty",
    brevity_penalty_inputs,
    reference=penalty_with(),
    tested="ten files: too short, too long, two references, and two with a tie, the shorter first or last",
    mistakes=(
        Mistake(
            "The penalty stands the wrong way round: it punishes what is longer than the reference.",
            penalty_with(formula=lambda c, r: min(1.0, np.exp(1 - c / r))),
        ),
        Mistake(
            "A long hypothesis gets a bonus: the penalty is never above 1.",
            penalty_with(formula=lambda c, r: np.exp(1 - r / c)),
        ),
        Mistake(
            "This is the ratio c / r itself. The penalty is e to the power 1 - r / c, which falls faster.",
            penalty_with(formula=lambda c, r: min(1.0, c / r)),
        ),
        Mistake(
            "The exponent is c / r - 1; the formula has 1 - r / c.",
            penalty_with(formula=lambda c, r: min(1.0, np.exp(c / r - 1))),
        ),
        Mistake(
            "This is the mean of the sentences' penalties. Lengths are added first: one long sentence makes up for a "
            "short one.",
            mean_of_penalties,
        ),
        Mistake(
            "The shortest reference is taken; the closest counts.", penalty_with(lambda length, options: min(options))
        ),
        Mistake(
            "The longest reference is taken; the closest counts.", penalty_with(lambda length, options: max(options))
        ),
        Mistake("The first reference is taken; the closest counts.", penalty_with(lambda length, options: options[0])),
        Mistake(
            "The mean of the reference lengths is taken; the closest counts.",
            penalty_with(lambda length, options: float(np.mean(options))),
        ),
        Mistake(
            "Of two references equally close the longer is taken; take the shorter.",
            penalty_with(lambda length, options: min(options, key=lambda o: (abs(o - length), -o))),
        ),
        Mistake(
            "Of two references equally close the first is taken; take the shorter.",
            penalty_with(lambda length, options: min(options, key=lambda o: abs(o - length))),
        ),
        Mistake(
            "Of two references equally close the last is taken; take the shorter.",
            penalty_with(lambda length, options: min(options[::-1], key=lambda o: abs(o - length))),
        ),
    ),
)

# -- split_compounds --------------------------------------------------------------------------------------------------

MARK = " ##AT##-##AT## "


def split_compounds_inputs(rng):
    yield ("Text-Format",)
    yield ("Das Haus - es war alt - steht am Nord-Ostsee-Kanal .",)
    yield ("A-B-C und S-Bahn-Station",)
    yield ('Der CO2-Ausstoß , die Öl-Ämter und der " Ja "-Sager',)
    yield ("Vor- und Nachteile , ein U-Boot",)
    yield ("ohne Bindestrich",)


def substituted(pattern, replacement, count=0):
    return lambda line: re.sub(pattern, replacement, line, count=count)


SPLIT_COMPOUNDS = Exercise(
    "13_bleu.split_compounds",
    split_compounds_inputs,
    reference=substituted(r"(\S)-(\S)", rf"\1{MARK}\2"),
    tested="six lines with dashes, digits, umlauts, quotes and compounds of three parts",
    mistakes=(
        Mistake(
            "Every hyphen is replaced. One with a space on one side, like a dash or in `Vor- und`, must stay.",
            lambda line: line.replace("-", MARK),
        ),
        Mistake(
            "In `A-B-C` both hyphens are split. The match takes the B with it and goes on after it: the second stays. "
            "What counts here is what the paper's script does, not what it should do.",
            substituted(r"(?<=\S)-(?=\S)", MARK),
        ),
        Mistake("Only the first hyphen of the line is split.", substituted(r"(\S)-(\S)", rf"\1{MARK}\2", count=1)),
        Mistake("The marks ##AT## are missing around the hyphen.", substituted(r"(\S)-(\S)", r"\1 - \2")),
        Mistake("The spaces are missing: three words must come out.", substituted(r"(\S)-(\S)", r"\1##AT##-##AT##\2")),
        Mistake("The two characters beside the hyphen are lost.", substituted(r"\S-\S", MARK)),
        Mistake(
            "Only hyphens between the letters a to z are split: \\S is any character but a space, so ß, Ö and 2 too.",
            substituted(r"([A-Za-z])-([A-Za-z])", rf"\1{MARK}\2"),
        ),
        Mistake(
            'Only hyphens between letters or digits are split: \\S is any character but a space, so " too.',
            substituted(r"(\w)-(\w)", rf"\1{MARK}\2"),
        ),
    ),
)

# -- bootstrap --------------------------------------------------------------------------------------------------------


def bootstrap_inputs(rng):
    ours, theirs = _counts(rng, 6, 0.75), _counts(rng, 6, 0.75)
    yield ours, theirs, np.array([[0, 1, 2, 3, 4, 5]])
    yield ours, ours, rng.integers(6, size=(4, 6))
    for size in (8, 12, 20):
        yield _counts(rng, size, 0.8), _counts(rng, size, 0.8), rng.integers(size, size=(200, size))
    for size in (12, 20):
        yield _counts(rng, size, 0.8, longer=4), _counts(rng, size, 0.8, longer=1), rng.integers(size, size=(200, size))


def _counts(rng, n_sentences, share, longer=0):
    """Counts as of sentences of 6 to 30 words, in float64; ``longer``: so many words more than their references have,
    but for two less to four more."""
    c = rng.integers(6, 31, n_sentences)
    total = c[:, None] - np.arange(4)
    right = rng.binomial(total, share ** np.arange(1, 5))
    return np.column_stack([c, c - longer + rng.integers(-2, 5, n_sentences), right, total]).astype(float)


def scores(counts, brief=True, most=1.0):
    penalty = np.minimum(most, np.exp(1 - counts[..., 1] / counts[..., 0])) if brief else 1.0
    return penalty * np.prod(counts[..., 2:6] / counts[..., 6:], axis=-1) ** 0.25


def drawn(counts, draws):
    return scores(counts[draws].sum(axis=1))


BOOTSTRAP = Exercise(
    "13_bleu.bootstrap",
    bootstrap_inputs,
    reference=lambda ours, theirs, draws: float((drawn(ours, draws) > drawn(theirs, draws)).mean()),
    tested="seven pairs of systems, one of them the same system twice, two of them too long",
    mistakes=(
        Mistake(
            "The other system is ahead where ours should be: ours must be the higher one.",
            lambda ours, theirs, draws: float((drawn(ours, draws) < drawn(theirs, draws)).mean()),
        ),
        Mistake(
            "This is the number of draws that were won; the share divides it by all draws.",
            lambda ours, theirs, draws: int((drawn(ours, draws) > drawn(theirs, draws)).sum()),
        ),
        Mistake(
            "A tie is counted as won. Two equal systems win in no draw.",
            lambda ours, theirs, draws: float((drawn(ours, draws) >= drawn(theirs, draws)).mean()),
        ),
        Mistake(
            "The scores of the sentences are averaged. Add up the counts of a draw, then compute its BLEU.",
            lambda ours, theirs, draws: float(
                (scores(ours)[draws].mean(axis=1) > scores(theirs)[draws].mean(axis=1)).mean()
            ),
        ),
        Mistake(
            "Sentences are compared one by one; BLEU compares the sums of a draw.",
            lambda ours, theirs, draws: float((scores(ours) > scores(theirs))[draws].mean()),
        ),
        Mistake(
            "Only our system is resampled, and the other keeps its whole file: both need the same sentences.",
            lambda ours, theirs, draws: float((drawn(ours, draws) > scores(theirs.sum(axis=0))).mean()),
        ),
        Mistake(
            "Each draw is compared with another draw of the other system. Paired means the same sentences for both.",
            lambda ours, theirs, draws: float((drawn(ours, draws) > drawn(theirs, np.roll(draws, 1, axis=0))).mean()),
        ),
        Mistake(
            "The draws are not used: this compares the whole files, once.",
            lambda ours, theirs, draws: float(scores(ours.sum(axis=0)) > scores(theirs.sum(axis=0))),
        ),
        Mistake(
            "The counts are summed over the draws. A draw is a row of `draws`: sum over its sentences, axis 1.",
            lambda ours, theirs, draws: float(
                (scores(ours[draws].sum(axis=0)) > scores(theirs[draws].sum(axis=0))).mean()
            ),
        ),
        Mistake(
            "The brevity penalty rewards a long file: it is never above 1.",
            lambda ours, theirs, draws: float(
                (scores(ours[draws].sum(axis=1), most=np.inf) > scores(theirs[draws].sum(axis=1), most=np.inf)).mean()
            ),
        ),
        Mistake(
            "The brevity penalty is missing.",
            lambda ours, theirs, draws: float(
                (scores(ours[draws].sum(axis=1), False) > scores(theirs[draws].sum(axis=1), False)).mean()
            ),
        ),
    ),
)

EXERCISES = (CLIPPED_COUNTS, BREVITY_PENALTY, CORPUS, SPLIT_COMPOUNDS, BOOTSTRAP)
