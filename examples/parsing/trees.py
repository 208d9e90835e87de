"""Constituency trees: the bracketed form of the Penn Treebank, and the part of a tree that a parser is to predict.

    (TOP (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)))

A bracket holds a label and either one word (its label is then a part-of-speech tag) or other brackets.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from minitransformer.errors import DataError, quote
from minitransformer.text.corpus import stream_lines

BLANK = " \t\r\n\ufeff"
"""What separates words; byte-order marks, since files may have been concatenated. No-break spaces are part of words."""
TOKEN = re.compile(rf"[()]|[^(){BLANK}]+")
BRACKETS = {"(": "-LRB-", ")": "-RRB-"}
"""How the Penn Treebank writes brackets that are words of the sentence."""
ROOT = "TOP"
"""The label of an outermost bracket that has none, as in the files of the Penn Treebank: ``( (S ...) )``."""
ROOTS = {ROOT, "ROOT", "S1"}
"""The labels of the root in the conventions of different parsers."""
TRACE = "-NONE-"
"""The tag of an empty element: a trace or a word that was left out."""
MAX_DEPTH = 200
"""Brackets within brackets; treebanks have about 30. The limit keeps recursive functions within Python's own."""
MAX_WORDS = 2000
"""Words of a tree; treebanks have a few hundred. With `MAX_DEPTH` it bounds the memory and the time for one."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent, with ``children`` and no ``word``, or a word with its tag as ``label``, and no children."""

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def leaves(self) -> list["Tree"]:
        """The words with their tags, from left to right."""
        return [self] if self.word is not None else [leaf for child in self.children for leaf in child.leaves()]

    def words(self) -> list[str]:
        return [leaf.word for leaf in self.leaves()]

    def tags(self) -> list[str]:
        return [leaf.label for leaf in self.leaves()]

    def __str__(self) -> str:
        """On one line, as `parse_trees` reads it; brackets within a word become -LRB- and -RRB-."""
        inside = map(str, self.children) if self.word is None else [escape_brackets(self.word)]
        return f"({self.label} {' '.join(inside)})"


def escape_brackets(word: str) -> str:
    """``word`` as the Penn Treebank writes it: ``(`` is -LRB- and ``)`` is -RRB-."""
    return re.sub("[()]", lambda match: BRACKETS[match.group()], word)


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, as they are separated in a tree."""
    return re.findall(f"[^{BLANK}]+", sentence)


def read_trees(path: str | Path) -> Iterator[Tree]:
    """The trees of a UTF-8 file (also .gz, .xz), one on a line or each over several lines.

    Raises:
        DataError: as for `read_lines` and `parse_trees`.
    """
    return parse_trees(stream_lines(path), str(path))


def parse_trees(lines: Iterable[str], name: str = "trees") -> Iterator[Tree]:
    """The trees of a text in brackets. A tree may extend over several lines.

    name: precedes line and column in messages

    Raises:
        DataError: brackets are not balanced, a bracket is empty or has no label, or is more than `MAX_DEPTH` deep, or
            there are more than `MAX_WORDS` words; with line and column, counted from 1.
    """
    stack: list[_Bracket] = []
    n_words = 0
    for number, line in enumerate(lines, start=1):
        for match in TOKEN.finditer(line):
            token, where = match.group(), f"{name}:{number}:{match.start() + 1}"
            if token == "(":
                if stack:
                    stack[-1].check_child(where, is_root=len(stack) == 1)
                if len(stack) == MAX_DEPTH:
                    raise DataError(f"{where}: brackets must be at most {MAX_DEPTH} deep, got one more")
                stack.append(_Bracket(where))
            elif not stack:
                raise DataError(f'{where}: a tree must begin with "(", got {quote(token, 60)}')
            elif token != ")":
                stack[-1].add_text(token, where)
                n_words += stack[-1].word is not None
                if n_words > MAX_WORDS:
                    raise DataError(f"{where}: a tree must have at most {MAX_WORDS} words, got one more")
            elif len(stack) > 1:
                tree = stack.pop().closed()
                stack[-1].children.append(tree)
            else:
                n_words = 0
                yield stack.pop().closed()
    if stack:
        raise DataError(
            f'{stack[0].where}: every "(" of a tree must be closed, got a tree with {len(stack)} still open at the '
            "end of the text"
        )


@dataclass
class _Bracket:
    """A bracket that is not closed yet. ``where``: file, line and column of its ``(``"""

    where: str
    label: str = ""
    word: str | None = None
    children: list[Tree] = field(default_factory=list)

    def check_child(self, where: str, is_root: bool) -> None:
        if self.word is not None:
            raise DataError(f'{where}: a bracket must hold one word or brackets, got "(" after {quote(self.word, 60)}')
        if not self.label and not is_root:
            raise DataError(
                f'{self.where}: a bracket within a tree must have a label, got "("; is a ")" missing before it?'
            )

    def add_text(self, token: str, where: str) -> None:
        if not self.label and not self.children:
            self.label = token
        elif self.word is None and not self.children:
            self.word = token
        else:
            raise DataError(f"{where}: a bracket must hold one word or brackets, got {quote(token, 60)} as well")

    def closed(self) -> Tree:
        if self.word is None and not self.children:
            got = f"only the label {quote(self.label, 60)}" if self.label else '"()"'
            raise DataError(f"{self.where}: a bracket must hold a label and a word or brackets, got {got}")
        return Tree(self.label or ROOT, tuple(self.children), self.word)


def bare_tree(tree: Tree) -> Tree | None:
    """The part of a treebank's tree that is predicted and scored: no traces, no function tags, no root above the
    sentence; always a constituent. None if the tree has nothing but traces."""
    found = without_traces(tree)
    return without_root(without_functions(found)) if found else None


def without_traces(tree: Tree) -> Tree | None:
    """``tree`` without empty elements and the constituents that hold nothing else; None if nothing is left."""
    if tree.word is not None:
        return None if tree.label == TRACE else tree
    children = tuple(filter(None, map(without_traces, tree.children)))
    return replace(tree, children=children) if children else None


def without_functions(tree: Tree) -> Tree:
    """``tree`` with every label cut to its category, by `base_label`."""
    return replace(tree, label=base_label(tree.label), children=tuple(map(without_functions, tree.children)))


def base_label(label: str) -> str:
    """NP of NP-SBJ-1 and NP=2: a label up to the first ``-`` or ``=`` that is not its first character."""
    return label[:1] + re.split("[-=]", label[1:], maxsplit=1)[0] if not label.startswith("-") else label


def without_root(tree: Tree) -> Tree:
    """The one constituent that the root of a tree holds; a single word gets a root, to be a constituent."""
    if tree.word is not None:
        return Tree(ROOT, (tree,))
    is_above_one = tree.label in ROOTS and len(tree.children) == 1 and tree.children[0].word is None
    return tree.children[0] if is_above_one else tree
