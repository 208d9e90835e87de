"""Exercise of lesson 10: the most probable cut, by Viterbi."""

import math

from course.exercise import Exercise, Mistake
from minitransformer.text.sentencepiece import best_pieces


def viterbi_inputs(rng):
    yield "ab", {"a": -1.0, "b": -2.0, "ab": -2.5}
    yield "abc", {"a": -1.0, "b": -2.0, "c": -4.0, "ab": -2.25, "bc": -4.5}
    yield "ab", {"ab": -1.0}
    yield "lowest", {**dict.fromkeys("lowest", -6.0), "lo": -4.0, "low": -4.0, "est": -4.0, "west": -5.0, "lowes": -9.0}
    for size in (8, 12, 16):  # each letter stands once: no two ways have the same pieces, and so the same sum
        text = "".join(rng.permutation(list("abcdefghijklmnop"))[:size].tolist())
        spans = [(start, start + width) for width in (2, 3, 4) for start in range(size) if rng.random() < 0.5]
        pieces = [*text, *(text[start:end] for start, end in spans)]
        yield text, {piece: float(-rng.uniform(2, 6) * len(piece) ** 0.7) for piece in pieces}


def viterbi(text, scores):
    """The pieces are the engine's; the sum of a place is that of the pieces which the engine finds up to it."""
    longest = max(map(len, scores))
    ways = [best_pieces(text[:end], scores, -math.inf, longest) for end in range(len(text) + 1)]
    sums = [math.fsum(map(scores.get, way)) if scores.keys() >= set(way) else -math.inf for way in ways]
    return sums, ways[-1]


def searched(text, scores, *, choose=max, total=lambda before, score: before + score, nowhere=-math.inf):
    """Viterbi with another rule for what is best, or for the sum, or for a place that no way reaches."""
    ways: list[tuple] = [(0.0, 0, ())]
    for end in range(1, len(text) + 1):
        arrivals = [
            (total(ways[start][0], scores[text[start:end]]), start, (*ways[start][2], text[start:end]))
            for start in range(end)
            if text[start:end] in scores and ways[start][0] != nowhere
        ]
        ways.append(choose(arrivals) if arrivals else (nowhere, 0, ()))
    return [way[0] for way in ways], list(ways[-1][2])


def walked(text, scores, key):
    """From the left, at each place the piece that ``key`` likes most."""
    pieces, at = [], 0
    while at < len(text):
        pieces.append(max((text[at:end] for end in range(at + 1, len(text) + 1) if text[at:end] in scores), key=key))
        at += len(pieces[-1])
    return pieces


def with_pieces(change):
    return lambda text, scores: (viterbi(text, scores)[0], change(text, scores))


VITERBI = Exercise(
    "10_subwords.viterbi",
    viterbi_inputs,
    reference=viterbi,
    tested="seven texts, one with a place that no way reaches, against the engine's best_pieces",
    parts=("sums", "pieces"),
    mistakes=(
        Mistake(
            "The pieces come from the end of the text, as the way back meets them: turn their order round.",
            with_pieces(lambda text, scores: viterbi(text, scores)[1][::-1]),
        ),
        Mistake(
            "The first place is missing from the sums: nothing costs nothing, so sums[0] is 0.",
            lambda text, scores: (viterbi(text, scores)[0][1:], viterbi(text, scores)[1]),
        ),
        Mistake(
            "The sums are right, but the pieces are the longest from the left. Note where each sum came from.",
            with_pieces(lambda text, scores: walked(text, scores, len)),
        ),
        Mistake(
            "The sums are right, but the pieces are the most probable from the left. Note where each sum came from.",
            with_pieces(lambda text, scores: walked(text, scores, scores.get)),
        ),
        *(
            Mistake(
                "The smallest sum is kept. Scores are logarithms, so the most probable way has the largest.",
                lambda text, scores, nowhere=nowhere: searched(text, scores, choose=min, nowhere=nowhere),
            )
            for nowhere in (math.inf, -math.inf)
        ),
        Mistake(
            "The way with the fewest pieces is kept; keep the largest sum of scores, however many pieces it has.",
            lambda text, scores: searched(text, scores, choose=lambda ways: min(ways, key=lambda way: len(way[2]))),
        ),
        Mistake(
            "The last arrival at a place is kept, whatever its sum: change a place only for a larger sum.",
            lambda text, scores: searched(text, scores, choose=lambda ways: ways[-1]),
        ),
        Mistake(
            "The first arrival at a place is kept, whatever its sum: change a place whenever a larger sum comes.",
            lambda text, scores: searched(text, scores, choose=lambda ways: ways[0]),
        ),
        Mistake(
            "A sum holds the last score alone. Add the best sum of the place where the piece starts.",
            lambda text, scores: searched(text, scores, total=lambda before, score: score),
        ),
        Mistake(
            "Scores are multiplied. They are logarithms of probabilities: add them.",
            lambda text, scores: searched(text, scores, total=lambda before, score: (before or 1.0) * score),
        ),
    ),
)
