"""Lines that a tokenizer must not lose: ordinary ones, and characters from everywhere; and tokenizers of them."""

from minitransformer.text import Tokenizer

TEXT = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche .",
    "Two young, White males are outside near many bushes.",
    "  The  bushes\tare near,  the men aren't; 12 + 345 = 357 … \u2028 한국어 😀 \x00 end ",
    "",
]
BY_BYTES = Tokenizer.train(TEXT * 2, 330)
BY_WORDS = Tokenizer.train(TEXT[:2] * 2, 130, mode="words")


def random_line(rng):
    """Characters from everywhere: ASCII, spaces of all kinds, every plane, but no lone surrogates."""
    pools = ["ab ", " \t\u00a0\u0085\u2028\u3000\r\n", [chr(code) for code in range(0x300)], None]
    characters = []
    for _ in range(rng.randrange(60)):
        pool = rng.choice(pools)
        code = rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)])
        characters.append(rng.choice(pool) if pool else chr(code))
    return "".join(characters)
