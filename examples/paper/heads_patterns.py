"""The English patterns that heads are searched for: which word should attend to which, by closed word lists."""

import re
from collections.abc import Iterator, Sequence

FUNCTION_WORDS = set(
    "a an the this that these those some his her its their my your our and or but as while who which with without in "
    "on at by for from of to into onto over under near behind beside between through across around along past toward "
    "towards against during about after before inside outside next above below among like down up off out is "
    "are was were be been has have had do does did can will would not he she it they him them".split()
)
ANTECEDENTS = {
    "he him his himself": "man boy guy gentleman father son male king president minister",
    "she her hers herself": "woman girl lady mother daughter female queen",
    "they them their themselves": "people men women children boys girls kids couple players dogs workers friends",
    "it its itself": "dog cat bird horse animal car truck boat company country government law court bank city",
}
"""Pronouns and the nouns that they may mean; the nearest one before the pronoun is taken as its antecedent."""
DISTANT_PARTS = {
    r"pick(s|ed|ing)?|lift(s|ed|ing)?|hold(s|ing)?|held": "up out",
    r"put(s|ting)?|tak(e|es|ing)|took|turn(s|ed|ing)?|throw(s|ing)?|threw": "on off up down away out apart",
    r"mak(e|es|ing)|made": "difficult easier harder possible impossible clear sure better worse",
}
"""Verbs, as regular expressions, and the words that complete them further on, as "making ... more difficult"."""

WordPairs = Iterator[tuple[int, int]]


def previous_word(words: Sequence[str]) -> WordPairs:
    """Each word and the one before it."""
    yield from ((i, i - 1) for i in range(1, len(words)))


def next_word(words: Sequence[str]) -> WordPairs:
    """Each word and the one after it."""
    yield from ((i, i + 1) for i in range(len(words) - 1))


def determiner_to_noun(words: Sequence[str]) -> WordPairs:
    """A determiner and the last word before the next function word, if it is two to four words on."""
    for i, word in enumerate(words):
        if word in ("a", "an", "the"):
            j = i
            while j + 1 < len(words) and words[j + 1].isalpha() and not _ends_noun(words[j + 1]):
                j += 1
            if 2 <= j - i <= 4:
                yield i, j


def _ends_noun(word: str) -> bool:
    return word in FUNCTION_WORDS or word.endswith("ing")


def pronoun_to_antecedent(words: Sequence[str]) -> WordPairs:
    """A pronoun and the nearest noun of `ANTECEDENTS` before it, two words away or more."""
    for pronouns, nouns in ANTECEDENTS.items():
        for i, word in enumerate(words):
            before = [j for j in range(i - 1) if words[j] in nouns.split()]
            if word in pronouns.split() and before:
                yield i, before[-1]


def verb_to_distant_part(words: Sequence[str]) -> WordPairs:
    """A verb and the first word that may complete it, five words on or more."""
    for verbs, parts in DISTANT_PARTS.items():
        for i, word in enumerate(words):
            after = [j for j in range(i + 1, len(words)) if words[j] in parts.split()]
            if re.fullmatch(verbs, word) and after and after[0] - i >= 5:
                yield i, after[0]


PATTERNS = {
    "previous word": previous_word,
    "next word": next_word,
    "determiner to its noun, 2 to 4 words on": determiner_to_noun,
    "pronoun to its antecedent": pronoun_to_antecedent,
    "verb to the word that completes it, 5 words on or more": verb_to_distant_part,
}
OF_DISTANCE = ("previous word", "next word")
"""The patterns that ask only for a distance."""
