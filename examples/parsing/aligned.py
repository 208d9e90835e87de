"""Trees in a form that keeps step with the words: one token for each word, or two.

    (S (NP (PRP It)) (VP (VBZ rains)) (. .))
    1 a word:   (S(NP(PRP))   (VP(VBZ))   (.))
    2 a word:   (S(NP(PRP  ))   (VP(VBZ  ))   (.  ))

The tokens, joined together, are the tree without its words. Token i of the first form belongs to word i, so a decoder
need not count, as it must in the form of Vinyals & Kaiser (`linear_trees`), which has 2.5 tokens a word. Rare tokens
have no id; `express` leaves out constituents until all tokens of a tree have one.
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from examples.parsing.trees import Tree, escape_brackets, parse_trees
from minitransformer.errors import DataError, quote

WORD = re.compile(r"([^)]+)(\)+)")
"""What opens before a word, its tag last, and what closes after it."""


class Spans(NamedTuple):
    """A tree as (label, first word, word after its last) of each constituent, outer before inner ones, and its tags."""

    constituents: list[tuple[str, int, int]]
    tags: list[str]

    @classmethod
    def of(cls, tree: Tree) -> "Spans":
        found, tags = [], []

        def visit(node: Tree) -> None:
            if node.word is not None:
                tags.append(node.label)
                return
            number, first = len(found), len(tags)
            found.append((node.label, first, first))
            for child in node.children:
                visit(child)
            found[number] = (node.label, first, len(tags))

        visit(tree)
        return cls(found, tags)

    def tokens(self, per_word: int) -> list[str]:
        opening, closing = ([""] * len(self.tags) for _ in range(2))
        for label, first, end in self.constituents:
            opening[first] += f"({label}"
            closing[end - 1] += ")"
        columns = zip(opening, self.tags, closing, strict=True)
        pairs = [(f"{opened}({tag}", f"){closed}") for opened, tag, closed in columns]
        return ["".join(pair) for pair in pairs] if per_word == 1 else [token for pair in pairs for token in pair]

    def without(self, number: int) -> "Spans":
        """The contents of the constituent with this number become its parent's."""
        return self._replace(constituents=self.constituents[:number] + self.constituents[number + 1 :])


def aligned_tokens(tree: Tree, per_word: int) -> list[str]:
    """The form of ``tree`` with 1 or 2 tokens a word; `aligned_tree` is its inverse."""
    return Spans.of(tree).tokens(per_word)


def aligned_tree(tokens: Sequence[str], words: Sequence[str]) -> Tree:
    """The tree of these tokens over ``words``.

    Raises:
        DataError: the tokens are not one tree with as many words.
    """
    text = "".join(tokens)
    pieces = WORD.findall(text)
    if len(pieces) != len(words):
        raise DataError(f"aligned form: must have one token group per word, got {len(pieces)} for {len(words)} words")
    filled = (f"{opened} {escape_brackets(word)}{closed}" for (opened, closed), word in zip(pieces, words, strict=True))
    trees = list(parse_trees(["".join(filled)], "aligned form"))
    if len(trees) != 1 or trees[0].word is not None:
        raise DataError(f"aligned form: must be one constituent, got {len(trees)} trees of {quote(text, 60)}")
    return trees[0]


def flat_tokens(root: str, tag: str, per_word: int) -> set[str]:
    """Tokens with which every sentence has a tree: one constituent ``root`` of words that are all ``tag``."""
    return {token for n_words in (1, 3) for token in Spans([(root, 0, n_words)], [tag] * n_words).tokens(per_word)}


def express(tree: Tree, known: Collection[str], plain: tuple[str, str], per_word: int) -> tuple[list[str], int]:
    """(the tokens of ``tree``, all of which are ``known``, how many constituents and labels had to be changed for it).

    Where a token is not known, one of the constituents that begin or end at this word is left out: the one whose
    absence leaves the fewest unknown tokens. Where only the root is left there, tag and root become the plain ones.

    plain: root and tag whose `flat_tokens` are known
    """
    spans, n_changed = Spans.of(tree), 0
    while unknown := _unknown(spans, known, per_word):
        word, n_changed = unknown[0] // per_word, n_changed + 1
        here = [
            number
            for number, (_, first, end) in enumerate(spans.constituents)
            if number and (first == word or end == word + 1)
        ]
        if here:
            without = [spans.without(number) for number in here]
            spans = min(without, key=lambda each: len(_unknown(each, known, per_word)))
        elif spans.tags[word] != plain[1]:
            spans.tags[word] = plain[1]
        else:
            spans.constituents[0] = (plain[0], *spans.constituents[0][1:])
    return spans.tokens(per_word), n_changed


def _unknown(spans: Spans, known: Collection[str], per_word: int) -> list[int]:
    return [number for number, token in enumerate(spans.tokens(per_word)) if token not in known]
