"""Which sentence pairs are worth learning from: the filters of the published recipes, as one stream over the text.

In this order: each line is normalised; a pair goes if a side is empty, too long, has a word too long, is much longer
than the other, is written in another script, or if the pair has been seen before. Each step counts what it takes away.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import regex

from minitransformer.errors import ConfigError
from minitransformer.text.processes import map_in_processes

PAIRS_AT_A_TIME = 5000
STEPS = ("empty", "long", "long word", "ratio", "script", "duplicate")
"""Reasons to leave a pair out, in the order in which they are looked for."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Rules:
    """What a pair must be to stay. Words are what stands between spaces.

    max_words, max_ratio: fairseq's recipe for WMT14 en-de has 250 and 1.5, but counts BPE pieces. Of words 1.5 is too
        strict: it takes 5 % of clean news and parliament text away (2 takes 0.6 %)
    max_word: characters of the longest word; longer ones are addresses, tables and damage
    src_script, tgt_script: Unicode's name of a script, such as Latin; more than half of the letters are to be of it.
        Empty: any
    """

    max_words: int = 250
    max_ratio: float = 2.0
    max_word: int = 100
    src_script: str = ""
    tgt_script: str = ""

    def __post_init__(self):
        for script in filter(None, (self.src_script, self.tgt_script)):
            _letters_of_others(script)


def clean(pairs: Iterable[Pair], rules: Rules, counts: Counter[str], processes: int = 1) -> Iterator[list[Pair]]:
    """The pairs that stay, normalised, some at a time, in their order.

    counts: what was read, changed, left out (by `STEPS`) and kept is added here
    processes: that share the work

    Memory does not grow with the text but for 8 bytes a pair, by which duplicates are known. (Of pairs by the thousand
    million two may share these 64 bits; then one of them is taken for a duplicate.)
    """
    pairs, seen = iter(pairs), Seen()
    tasks = ((some, rules) for some in iter(lambda: list(islice(pairs, PAIRS_AT_A_TIME)), []))
    for kept, marks, found in map_in_processes(_clean_some, tasks, processes):
        new = seen.add(marks)
        counts.update(found)
        counts["duplicate"] += len(kept) - int(new.sum())
        counts["kept"] += int(new.sum())
        yield [pair for pair, is_new in zip(kept, new.tolist(), strict=True) if is_new]


def normalised(line: str) -> str:
    """Unicode's composed form (NFC), single spaces, no control characters.

    All white space is a space afterwards: tabs, U+00A0, and U+0085 and U+2028, which other programs take for line ends.
    """
    if line.isprintable() and "  " not in line and line.strip(" ") == line and unicodedata.is_normalized("NFC", line):
        return line
    visible = "".join(c for c in " ".join(line.split()) if unicodedata.category(c) != "Cc")
    return unicodedata.normalize("NFC", " ".join(visible.split()))


def reason_to_leave_out(src: str, tgt: str, rules: Rules) -> str | None:
    """The first of `STEPS` that a normalised pair fails, but for duplicates; None: it stays."""
    if not src or not tgt:
        return "empty"
    n_src, n_tgt = src.count(" ") + 1, tgt.count(" ") + 1
    if max(n_src, n_tgt) > rules.max_words:
        return "long"
    if any(len(line) > rules.max_word and max(map(len, line.split(" "))) > rules.max_word for line in (src, tgt)):
        return "long word"
    if max(n_src, n_tgt) > rules.max_ratio * min(n_src, n_tgt):
        return "ratio"
    if not (_is_written_in(rules.src_script, src) and _is_written_in(rules.tgt_script, tgt)):
        return "script"
    return None


class Seen:
    """Sets of 64-bit numbers, as few sorted arrays of which each is at most half as long as the one before."""

    def __init__(self):
        self._sorted: list[np.ndarray] = []

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Which of these (n,) uint64 are met for the first time, (n,) bool. Afterwards all are known."""
        new = np.zeros(len(numbers), dtype=bool)
        new[np.unique(numbers, return_index=True)[1]] = True
        for known in self._sorted:
            places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            new &= known[places] != numbers
        self._keep(np.sort(numbers[new]))
        return new

    def _keep(self, numbers: np.ndarray) -> None:
        while self._sorted and len(self._sorted[-1]) < 2 * len(numbers):
            numbers = np.sort(np.concatenate((self._sorted.pop(), numbers)))
        if len(numbers):
            self._sorted.append(numbers)


def _clean_some(task: tuple[Sequence[Pair], Rules]) -> tuple[list[Pair], np.ndarray, Counter[str]]:
    """(pairs that stay, a 64-bit mark of each, counts)"""
    pairs, rules = task
    kept, counts = [], Counter(pairs=len(pairs))
    for src, tgt in pairs:
        pair = normalised(src), normalised(tgt)
        counts["normalised"] += pair != (src, tgt)
        reason = reason_to_leave_out(*pair, rules)
        if reason is None:
            kept.append(pair)
        else:
            counts[reason] += 1
    marks = b"".join(hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest() for pair in kept)
    return kept, np.frombuffer(marks, dtype=np.uint64), counts


LETTERS = regex.compile(r"\p{L}")


def _is_written_in(script: str, line: str) -> bool:
    if not script or (line.isascii() and script.casefold() == "latin"):
        return True
    others = len(_letters_of_others(script).findall(line))
    return others == 0 or 2 * others < len(LETTERS.findall(line))


_compiled: dict[str, regex.Pattern] = {}


def _letters_of_others(script: str) -> regex.Pattern:
    """A pattern of letters that are not of ``script``; marks and signs belong to every script."""
    if script not in _compiled:
        try:
            if not script.isidentifier():
                raise regex.error("no name")
            _compiled[script] = regex.compile(rf"[\p{{L}}--\p{{Script={script}}}]", flags=regex.V1)
        except regex.error:
            raise ConfigError(
                f"clean: a script must have a name that Unicode knows, such as Latin, got {script!r}"
            ) from None
    return _compiled[script]
