"""Exercises of lesson 14: exact matches, alignments, confused digits, the order of lines, means of checkpoints."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.answers import CONFUSION, EXACT_MATCH

# -- alignment --------------------------------------------------------------------------------------------------------


def alignment_inputs(rng):
    for n_heads, n_target, n_source in ((1, 2, 3), (2, 4, 3), (4, 6, 9)):
        scores = 2 * rng.standard_normal((n_heads, n_target, n_source))
        scores[..., -1] += 2.0  # many heads look at EOS when they have nothing to do
        weights = np.exp(scores)
        yield (weights / weights.sum(axis=-1, keepdims=True),)
    row = [[0.5, 0.4, 0.0, 0.1], [0.0, 0.4, 0.3, 0.3]]  # the mean is largest at 1, and the largest weight stands at 0
    yield (np.array(row)[:, None].repeat(2, axis=1),)


def alignment(weights):
    return weights.mean(axis=0)[:-1, :-1].argmax(axis=1)


ALIGNMENT = Exercise(
    "14_translation.alignment",
    alignment_inputs,
    reference=alignment,
    tested="one to four heads, with much weight on the source's EOS",
    mistakes=(
        Mistake(
            "The source's EOS is not left out: it is the last column, and it is not a word.",
            lambda weights: weights.mean(axis=0)[:-1].argmax(axis=1),
        ),
        Mistake(
            "The row of the target's EOS is not left out: it is the last row, and it is not a word.",
            lambda weights: weights.mean(axis=0)[:, :-1].argmax(axis=1),
        ),
        Mistake(
            "EOS is not left out: neither the last row nor the last column is a word.",
            lambda weights: weights.mean(axis=0).argmax(axis=1),
        ),
        Mistake(
            "The first row is dropped. Row t holds the weights with which token t is chosen: the last one is EOS.",
            lambda weights: weights.mean(axis=0)[1:, :-1].argmax(axis=1),
        ),
        Mistake(
            "The maximum runs over the target: it must find one source subword for each target subword.",
            lambda weights: weights.mean(axis=0)[:-1, :-1].argmax(axis=0),
        ),
        Mistake(
            "Only the first head is used; the mean over all heads is required.", lambda w: w[0, :-1, :-1].argmax(axis=1)
        ),
        Mistake(
            "The largest weight of any head decides; the mean over the heads is required.",
            lambda weights: weights.max(axis=0)[:-1, :-1].argmax(axis=1),
        ),
    ),
)

# -- in_order ---------------------------------------------------------------------------------------------------------


def shouted(lines):
    return [line.upper() for line in lines]


def in_order_inputs(rng):
    yield ["a b", "a", "a b c"], shouted, 2
    yield ["seven", "one hundred ten", "two", "forty-one thousand", "sixty-six"], shouted, 2
    yield ["aaaa", "b", "cc", "dddddd", "eee", "f" * 9, "g" * 7], shouted, 3
    yield [], shouted, 4


def in_order(lines, translate, size):
    results = [""] * len(lines)
    for rows in chunks(longest_first(lines), size):
        for row, result in zip(rows, translate([lines[row] for row in rows]), strict=True):
            results[row] = result
    return results


def longest_first(lines):
    return sorted(range(len(lines)), key=lambda row: -len(lines[row]))


def chunks(rows, size):
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def as_sorted(lines, translate, size):
    return [result for rows in chunks(longest_first(lines), size) for result in translate([lines[r] for r in rows])]


def sorted_twice(lines, translate, size):
    results = as_sorted(lines, translate, size)
    return [results[row] for row in longest_first(lines)]


def without_rest(lines, translate, size):
    whole = len(lines) - len(lines) % size
    kept = set(longest_first(lines)[:whole])
    return [result if row in kept else "" for row, result in enumerate(in_order(lines, translate, size))]


def batches_are_longest_first(function, lines, translate, size):
    """What the student's function asks of ``translate``."""
    batches = []

    def recorded(batch):
        batches.append(list(batch))
        return translate(batch)

    function(lines, recorded, size)
    if any(len(batch) > size for batch in batches):
        return f"A batch of {max(map(len, batches))} lines was translated; {size} were allowed."
    calls = math.ceil(len(lines) / size)
    if sum(map(len, batches)) != len(lines) or len(batches) != calls:
        return f"{len(lines)} lines in batches of {size} take {calls} calls, each line once; you made {len(batches)}."
    asked = [len(line) for batch in batches for line in batch]
    if asked != sorted(asked, reverse=True):
        return f"The lines were translated in the order of lengths {asked}; the longest must come first."
    return None


IN_ORDER = Exercise(
    "14_translation.in_order",
    in_order_inputs,
    reference=in_order,
    tested="the results, the batches that were asked for, a last batch that is not full, and no lines at all",
    mistakes=(
        Mistake("The results stand in the order of translation; line i's must stand at place i.", as_sorted),
        Mistake(
            "`results[order[k]]` at place k applies the order again. The inverse puts result k at place order[k].",
            sorted_twice,
        ),
        Mistake("The last batch, which is not full, is lost.", without_rest),
    ),
    properties=(batches_are_longest_first,),
)

# -- mean -------------------------------------------------------------------------------------------------------------


def mean_inputs(rng):
    parts = (("w", (2, 3)), ("b", (3,)), ("gamma", (4,)))
    for n_models in (2, 3):
        tables = [table_of(parts[i:] + parts[:i]) for i in range(n_models)]
        yield [stored(rng, table) for table in tables], tables


def table_of(parts, gap=1):
    table, offset = [], 0
    for name, shape in parts:
        table.append((name, shape, offset))
        offset += math.prod(shape) + gap
    return table


def stored(rng, table):
    vector = np.zeros(sum(math.prod(shape) + 1 for _, shape, _ in table))
    for _, shape, offset in table:
        vector[offset : offset + math.prod(shape)] = rng.standard_normal(math.prod(shape))
    return vector


def aligned(vectors, tables):
    """All vectors in the layout of the first."""
    return np.array([moved(vector, table, tables[0]) for vector, table in zip(vectors, tables, strict=True)])


def moved(vector, table, wanted):
    found = {name: vector[offset : offset + math.prod(shape)] for name, shape, offset in table}
    result = np.zeros_like(vector)
    for name, shape, offset in wanted:
        result[offset : offset + math.prod(shape)] = found[name]
    return result


def mean(vectors, tables):
    return aligned(vectors, tables).mean(axis=0)


def half_way_each_time(vectors, tables):
    result, *others = aligned(vectors, tables)
    for other in others:
        result = (result + other) / 2
    return result


MEAN = Exercise(
    "14_translation.mean",
    mean_inputs,
    reference=mean,
    tested="two and three models that keep their parameters in different orders, with gaps between them",
    mistakes=(
        Mistake(
            "The vectors are added as they lie. In each file the parameters may stand in another order: go by name.",
            lambda vectors, tables: np.mean(vectors, axis=0),
        ),
        Mistake("This is the sum; divide it by the number of models.", lambda v, t: aligned(v, t).sum(axis=0)),
        Mistake("The sum is halved whatever the number of models.", lambda v, t: aligned(v, t).sum(axis=0) / 2),
        Mistake("Half way to each next model: then the last one counts as much as all before it.", half_way_each_time),
        Mistake(
            "The result has the layout of the last table; that of the first is asked for.",
            lambda vectors, tables: mean(vectors[::-1], tables[::-1]),
        ),
    ),
)

EXERCISES = (EXACT_MATCH, ALIGNMENT, CONFUSION, IN_ORDER, MEAN)
