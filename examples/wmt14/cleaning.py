"""Cleaning of parallel text: the filters of published training recipes, applied in one pass over the text.

Each line is normalized. Then a pair is left out if one side is empty, is a copy of the other, is too long, contains an
overlong word, is much longer than the other side or is written in another script, or if the pair occurred before:
checked in this order, and counted by reason.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import regex

from minitransformer.errors import ConfigError, quote
from minitransformer.text.processes import in_chunks, map_in_processes
from minitransformer.text.punctuation import normalize_punctuation

REASONS = ("empty", "copy", "long", "long word", "ratio", "script", "duplicate")
"""Reasons to leave a pair out, in the order in which they are checked."""

MAX_MARKS = 1000
"""Combining marks in a row that are kept: NFC takes time quadratic in their number."""
MARKS = regex.compile(rf"((?:\p{{M}}\p{{Cc}}*){{{MAX_MARKS}}})(?:\p{{M}}\p{{Cc}}*)+")

SentencePair = tuple[str, str]


@dataclass(frozen=True)
class CleaningRules:
    """Which pairs are kept. A word is a sequence of characters between spaces.

    max_words, max_ratio: of a side, and between the sides, in words. fairseq's recipe for WMT14 en-de has 250 and 1.5,
        but counts BPE tokens. For words 1.5 is too strict: it removes 5 % of clean news and parliamentary text (2
        removes 0.6 %)
    max_word: characters of the longest word; longer ones are addresses, tables and corrupted text
    src_script, tgt_script: Unicode name of a script, such as Latin, to which more than half of the letters must belong;
        empty: any script
    punctuation: languages of source and target, by whose rules `normalize_punctuation` changes them; empty: neither
    """

    max_words: int = 250
    max_ratio: float = 2.0
    max_word: int = 100
    src_script: str = ""
    tgt_script: str = ""
    punctuation: tuple[str, ...] = ()

    def __post_init__(self):
        for language in self.punctuation:
            normalize_punctuation("", language)  # its package must be there
        for script in filter(None, (self.src_script, self.tgt_script)):
            _letters_of_others(script)


def clean(
    pairs: Iterable[SentencePair], rules: CleaningRules, counts: Counter[str], processes: int = 1
) -> Iterator[list[SentencePair]]:
    """Yield the pairs that are kept, normalized, in their order, a chunk at a time.

    counts: the numbers of pairs read, normalized, left out (by `REASONS`) and kept are added to it
    processes: number of processes that share the work

    Memory grows by 8 bytes per pair, a 64-bit hash by which duplicates are recognized. (Among thousands of millions of
    pairs two may have the same hash; one of them is then taken for a duplicate.)
    """
    seen = SeenHashes()
    tasks = ((chunk, rules) for chunk in in_chunks(pairs))
    for kept, hashes, found in map_in_processes(_clean_chunk, tasks, processes):
        new = seen.add(hashes)
        counts.update(found)
        counts["duplicate"] += len(kept) - int(new.sum())
        counts["kept"] += int(new.sum())
        yield [pair for pair, is_new in zip(kept, new.tolist(), strict=True) if is_new]


def normalize(line: str) -> str:
    """The line in Unicode's composed form (NFC), with single spaces and without control characters.

    All white space becomes a space: tabs, U+00A0, and also U+0085 and U+2028, which other programs take for line ends.
    """
    if len(line) > MAX_MARKS:
        line = MARKS.sub(r"\1", line)
    if line.isprintable() and "  " not in line and line.strip(" ") == line and unicodedata.is_normalized("NFC", line):
        return line
    visible = "".join(c for c in " ".join(line.split()) if unicodedata.category(c) != "Cc")
    return unicodedata.normalize("NFC", " ".join(visible.split()))


def reason_to_leave_out(src: str, tgt: str, rules: CleaningRules) -> str | None:
    """The first of `REASONS`, except duplicate, that applies to a normalized pair; None if it is kept."""
    if not src or not tgt:
        return "empty"
    if src.casefold() == tgt.casefold():
        return "copy"  # not translated: a model that has seen such pairs copies its input when it is unsure
    n_src, n_tgt = src.count(" ") + 1, tgt.count(" ") + 1
    if max(n_src, n_tgt) > rules.max_words:
        return "long"
    if any(_has_long_word(line, rules) for line in (src, tgt)):
        return "long word"
    if max(n_src, n_tgt) > rules.max_ratio * min(n_src, n_tgt):
        return "ratio"
    if not (_is_written_in(rules.src_script, src) and _is_written_in(rules.tgt_script, tgt)):
        return "script"
    return None


class SeenHashes:
    """A set of 64-bit integers, stored as a few sorted arrays, each at most half as long as the one before.

    It takes 8 bytes per element.
    """

    def __init__(self):
        self.arrays: list[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add (n,) uint64; returns which of them are new, (n,) bool."""
        new = np.zeros(len(hashes), dtype=bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        for known in self.arrays:
            at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            new &= known[at] != hashes
        added = np.sort(hashes[new])
        while self.arrays and len(self.arrays[-1]) < 2 * len(added):
            added = np.sort(np.concatenate((self.arrays.pop(), added)))
        if len(added):
            self.arrays.append(added)
        return new


def _clean_chunk(
    task: tuple[Sequence[SentencePair], CleaningRules],
) -> tuple[list[SentencePair], np.ndarray, Counter[str]]:
    """(pairs that are kept, a 64-bit hash of each, counts)"""
    pairs, rules = task
    kept, counts = [], Counter(pairs=len(pairs))
    for given in pairs:
        src, tgt = given
        # Moses' patterns take time quadratic in a word, and a pair with a long one is left out anyway.
        if rules.punctuation and not any(_has_long_word(line, rules) for line in given):
            src, tgt = map(normalize_punctuation, given, rules.punctuation)
        pair = normalize(src), normalize(tgt)
        counts["normalized"] += pair != given
        reason = reason_to_leave_out(*pair, rules)
        if reason is None:
            kept.append(pair)
        else:
            counts[reason] += 1
    hashes = b"".join(hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest() for pair in kept)
    return kept, np.frombuffer(hashes, dtype=np.uint64), counts


def _has_long_word(line: str, rules: CleaningRules) -> bool:
    return len(line) > rules.max_word and max(map(len, line.split()), default=0) > rules.max_word


LETTERS = regex.compile(r"\p{L}")


def _is_written_in(script: str, line: str) -> bool:
    if not script or (line.isascii() and script.casefold() == "latin"):
        return True
    others = len(_letters_of_others(script).findall(line))
    return others == 0 or 2 * others < len(LETTERS.findall(line))


@cache
def _letters_of_others(script: str) -> regex.Pattern:
    """A pattern that matches the letters of other scripts; combining marks and punctuation belong to every script."""
    try:
        if not script.isidentifier():
            raise regex.error("not a name")
        return regex.compile(rf"[\p{{L}}--\p{{Script={script}}}]", flags=regex.V1)
    except regex.error:
        raise ConfigError(f"a script must be a Unicode script name, such as Latin, got {quote(script)}") from None
