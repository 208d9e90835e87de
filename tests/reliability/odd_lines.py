"""Unusual lines of every kind, none of which a translation may lose or move."""

import random
from collections.abc import Callable

from examples.number_words import LIMIT, english
from tests.odd_text import random_line

RIGHT_TO_LEFT = "שלום עולם مرحبا بالعالم ‏123‎ "
EMOJI = "😀👩‍👩‍👧‍👦🇩🇪🏳️‍🌈❤️"
BLANKS = " \t\u00a0\u2003\u3000\u2028\u0085\x1c"
CONTROLS = "".join(map(chr, [*range(10), *range(11, 32), 0x7F, 0x80, 0x9B, 0x200B, 0xFEFF, 0xFFFE, 0xFFFF, 0x10FFFF]))


def number_words(rng: random.Random) -> str:
    return english(rng.randrange(LIMIT))


def _drawn_from(characters: str, most: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choices(characters, k=rng.randint(1, most)))


def _with(odd: str) -> Callable[[random.Random], str]:
    """Number words with ``odd`` at a random place."""

    def line(rng: random.Random) -> str:
        words = number_words(rng)
        place = rng.randint(0, len(words))
        return words[:place] + odd + words[place:]

    return line


def _one_character(rng: random.Random) -> str:
    return chr(rng.choice([rng.randrange(0x20, 0xD800), rng.randrange(0xE000, 0x110000)]))


def _long_word(rng: random.Random) -> str:
    return rng.choice("aä한😀") * rng.randint(80, 200)


KINDS: dict[str, tuple[float, Callable[[random.Random], str]]] = {
    "number words": (60, number_words),
    "empty": (4, lambda rng: ""),
    "blank": (4, _drawn_from(BLANKS, 8)),
    "NUL": (3, _with("\x00")),
    "U+2028": (3, _with("\u2028")),
    "CRLF": (4, lambda rng: number_words(rng) + "\r"),
    "byte order mark": (2, _with("\ufeff")),
    "right to left": (4, _drawn_from(RIGHT_TO_LEFT, 20)),
    "emoji": (4, _drawn_from(EMOJI, 8)),
    "controls": (4, _drawn_from(CONTROLS, 15)),
    "one character": (3, _one_character),
    "combining": (2, _drawn_from("e\u0301\u0323\u0489", 20)),
    "long word": (1, _long_word),
    "too long": (0.02, lambda rng: rng.choice("xä한😀") * rng.randint(1100, 3000)),
    "anything": (2, lambda rng: random_line(rng).replace("\n", " ")),
}
"""Kind: (share of the lines in percent, function that draws one). No line contains a line feed. A character that is
unknown to the tokenizer is at least one token, so "too long" means more than translation.max_input_length tokens."""


def draw_lines(count: int, seed: int) -> tuple[list[str], list[str]]:
    """(lines, the kind of each) in random order; every kind occurs among the first lines."""
    rng = random.Random(seed)
    weights = [weight for weight, _ in KINDS.values()]
    kinds = [*KINDS, *rng.choices(list(KINDS), weights, k=max(0, count - len(KINDS)))][:count]
    return [KINDS[kind][1](rng) for kind in kinds], kinds
