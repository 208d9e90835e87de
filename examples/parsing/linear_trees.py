"""Trees as the output of a sequence model, and back.      [Vinyals & Kaiser et al. 2015; paper, sec. 6.3]

    (S (NP (PRP It)) (VP (VBZ rains)) (. .))     <->     (S (NP XX )NP (VP XX )VP XX )S

The model reads the words and writes the linear form. It has one XX for each word, so that with the words it is
the whole tree except for the tags, which Vinyals & Kaiser left out because F1 does not count them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from examples.parsing.trees import BLANK, MAX_DEPTH, ROOT, Tree

ANY_TAG = "XX"
TOKEN = re.compile(rf"[()]?[^(){BLANK}]+|[()]")
"""A bracket begins a token even where the model wrote no blank before it."""


def linearize(tree: Tree, *, with_tags: bool = False) -> str:
    """The linear form of a tree: ``(LABEL`` and ``)LABEL`` around what a constituent holds, XX for each word.

    with_tags: the word's part-of-speech tag instead of XX
    """
    return " ".join(_tokens(tree, with_tags))


def _tokens(tree: Tree, with_tags: bool) -> Iterator[str]:
    if tree.word is not None:
        yield tree.label if with_tags else ANY_TAG
        return
    yield f"({tree.label}"
    for child in tree.children:
        yield from _tokens(child, with_tags)
    yield f"){tree.label}"


def delinearize(linear: str, words: Sequence[str]) -> Tree:
    """The tree of a linear form over ``words``: the inverse of `linearize`, and a repair of what is ill-formed.

    ``)X`` closes all brackets up to the innermost open ``(X``; without one it is ignored. Missing words are added
    to the outermost constituent; superfluous words and brackets that hold no word are ignored. If several
    constituents are left, or none, they get the root TOP. A bracket that would make the tree deeper than `MAX_DEPTH`
    if it got this root is ignored. The form was well-formed if and only if `linearize` of the result gives it again.
    """
    builder = _TreeBuilder(words)
    for token in (match.group() for match in TOKEN.finditer(linear)):
        if token[0] == "(":
            builder.open(token[1:])
        elif token[0] == ")":
            builder.close(token[1:])
        elif builder.n_words < len(words):
            builder.add_word(token)
    if builder.n_words < len(words):
        builder.reopen_outermost()
        while builder.n_words < len(words):
            builder.add_word(ANY_TAG)
    return builder.finish()


class _TreeBuilder:
    """Builds a tree over ``words`` from left to right. ``stack``: the root and the open brackets, each with its label
    and what it holds so far."""

    def __init__(self, words: Sequence[str]):
        self.words, self.n_words = words, 0
        self.stack: list[tuple[str, list[Tree]]] = [(ROOT, [])]
        self.n_open = Counter()  # how many brackets of each label

    def open(self, label: str) -> None:
        if label and len(self.stack) < MAX_DEPTH - 1:
            self.stack.append((label, []))
            self.n_open[label] += 1

    def close(self, label: str) -> None:
        """Close all brackets up to the innermost one with this label, if there is one."""
        if self.n_open[label]:
            while self._pop() != label:
                pass

    def _pop(self) -> str:
        """Close the innermost bracket, and forget it if it is empty; returns its label."""
        label, children = self.stack.pop()
        self.n_open[label] -= 1
        if children:
            self.stack[-1][1].append(Tree(label, tuple(children)))
        return label

    def add_word(self, tag: str) -> None:
        self.stack[-1][1].append(Tree(tag, word=self.words[self.n_words]))
        self.n_words += 1

    def reopen_outermost(self) -> None:
        """Leave only the outermost constituent open; the root itself if there are several, or none."""
        tree = self.finish()
        self.stack = [(ROOT, [])] if tree.label == ROOT else [(ROOT, []), (tree.label, [])]
        self.stack[-1][1].extend(tree.children)

    def finish(self) -> Tree:
        while len(self.stack) > 1:
            self._pop()
        roots = self.stack[0][1]
        return roots[0] if len(roots) == 1 and roots[0].word is None else Tree(ROOT, tuple(roots))
