"""A treebank as a corpus of two vocabularies: the words of sentences, and the tokens of their trees."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from examples.parsing.aligned import aligned_tokens, aligned_tree, express, flat_tokens
from examples.parsing.grammar import Grammar
from examples.parsing.trees import Tree, bare_tree, read_trees
from examples.parsing.words import Words
from minitransformer.batch import pad_rows
from minitransformer.config import EOS, UNK
from minitransformer.errors import DataError
from minitransformer.generation import beam_search
from minitransformer.models import Model

FORMS = {"C": 1, "B": 2}
"""Tokens of a word in each aligned form."""
SEEN = 2
"""A token of the form has an id if the training trees have it at least so often."""


def trees_of(folder: Path, part: str) -> list[Tree]:
    """The bare trees of ``train``, ``dev`` or ``test``; DataError if the folder has none."""
    found = (tree for path in sorted(folder.glob(f"{part}*.mrg")) for tree in read_trees(path))
    trees = [bare for bare in map(bare_tree, found) if bare]
    if not trees:
        raise DataError(f"{folder}: must hold trees in {part}*.mrg, got none; see README.md of examples/parsing")
    return trees


class Treebank:
    """What the training trees define: both vocabularies and the grammar.

    Attributes:
        words, kinds, grammar: the source's vocabulary; the tokens of the form from the id UNK + 1 on; their grammar.
    """

    def __init__(self, trees: Sequence[Tree], form: str):
        self.per_word = FORMS[form]
        self.words = Words(Counter(word for tree in trees for word in tree.words()))
        counts = Counter(token for tree in trees for token in aligned_tokens(tree, self.per_word))
        roots, tags = Counter(tree.label for tree in trees), Counter(tag for tree in trees for tag in tree.tags())
        self.plain = roots.most_common(1)[0][0], tags.most_common(1)[0][0]
        kinds = {token for token, count in counts.items() if count >= SEEN} | flat_tokens(*self.plain, self.per_word)
        self.kinds = sorted(kinds, key=lambda kind: (-counts[kind], kind))
        self.ids = {kind: UNK + 1 + number for number, kind in enumerate(self.kinds)}
        self.grammar = Grammar(self.kinds, self.per_word)

    def sources(self, trees: Iterable[Tree]) -> list[list[int]]:
        return [self.words.encode(tree.words()) for tree in trees]

    def express(self, trees: Sequence[Tree]) -> tuple[list[list[int]], int, int]:
        """(the ids of the trees in the form, how many trees lost something in it, how many constituents and labels)"""
        found = [express(tree, self.ids, self.plain, self.per_word) for tree in trees]
        targets = [[self.ids[token] for token in tokens] for tokens, _ in found]
        changes = [n_changed for _, n_changed in found]
        return targets, sum(map(bool, changes)), sum(changes)

    def tree(self, target: Sequence[int], words: Sequence[str]) -> Tree:
        return aligned_tree([self.kinds[token - UNK - 1] for token in target], words)

    def parse(self, model: Model, sentences: Sequence[list[str]], beam_size: int, batch_tokens: int) -> list[Tree]:
        """The most probable tree that the search finds for each sentence."""
        by_length: dict[int, list[int]] = {}
        for number, sentence in enumerate(sentences):
            by_length.setdefault(len(sentence), []).append(number)
        found: dict[int, Tree] = {}
        for n_words, numbers in by_length.items():
            size = max(1, batch_tokens // (n_words * beam_size))
            for start in range(0, len(numbers), size):
                group = numbers[start : start + size]
                src = pad_rows([self.words.encode(sentences[number]) for number in group], last=EOS)
                options = {"max_extra": (self.per_word - 1) * n_words + 1, "allowed": self.grammar.allowed(n_words)}
                outputs = beam_search(model, src, beam_size=beam_size, alpha=0.0, **options)
                for number, (best,) in zip(group, outputs, strict=True):
                    found[number] = self.tree(best.ids, sentences[number])
        return [found[number] for number in range(len(sentences))]
