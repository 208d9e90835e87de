"""Trees in the forms that keep step with the words, their grammar, and the words of the source."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from test_trees import one_tree, random_tree

from examples.parsing import grammar as grammar_of_forms
from examples.parsing import treebank, trees
from examples.parsing.aligned import Spans, aligned_tokens, aligned_tree, express, flat_tokens
from examples.parsing.grammar import Grammar
from examples.parsing.treebank import Treebank
from examples.parsing.trees import Tree
from examples.parsing.words import WORD_DROPOUT, WordDropout, Words, word_class
from minitransformer.config import EOS, UNK
from minitransformer.errors import DataError
from minitransformer.generation import Hypothesis
from minitransformer.text import BatchStream
from minitransformer.training.micro_batches import MicroBatches

IT_RAINS = Tree(
    "S", (Tree("NP", (Tree("PRP", word="It"),)), Tree("VP", (Tree("VBZ", word="rains"),)), Tree(".", word="."))
)
FORMS = {1: "(S(NP(PRP)) (VP(VBZ)) (.))", 2: "(S(NP(PRP )) (VP(VBZ )) (. ))"}
both_forms = pytest.mark.parametrize("per_word", FORMS)


@both_forms
def test_the_tokens_are_the_tree_without_its_words(per_word, rng):
    assert " ".join(aligned_tokens(IT_RAINS, per_word)) == FORMS[per_word]
    for tree in (random_tree(rng) for _ in range(50)):
        tokens = aligned_tokens(tree, per_word)
        assert len(tokens) == per_word * len(tree.words())
        assert aligned_tree(tokens, tree.words()) == tree
        shown = str(tree)
        for word in tree.words():
            shown = shown.replace(f" {word})", ")")
        assert "".join(tokens) == shown.replace(" ", "")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("(S(A)) (B)) (.))", "tree must begin"),
        ("(S(A) (B) (.)", "every .* must be closed"),
        ("(S(A) (B))", "got 2 for 3 words"),
        ("(A) (B) (C)", "must be one constituent, got 3 trees"),
    ],
)
def test_what_is_no_tree_over_the_words_is_refused(form, message):
    with pytest.raises(DataError, match=message):
        aligned_tree(form.split(), ["a", "b", "c"])


@both_forms
def test_what_a_vocabulary_cannot_express_is_left_out_and_counted(per_word, rng):
    for tree in (random_tree(rng) for _ in range(60)):
        tokens, flat = aligned_tokens(tree, per_word), flat_tokens("S", "t", per_word)
        known = flat | set(rng.choice(tokens, rng.integers(0, len(tokens) + 1)))
        found, n_changed = express(tree, known, ("S", "t"), per_word)
        assert set(found) <= known
        assert (n_changed == 0) == (set(tokens) <= known)
        ours, theirs = Spans.of(aligned_tree(found, tree.words())), Spans.of(tree)
        assert ours.constituents[0][1:] == theirs.constituents[0][1:]
        assert not Counter(ours.constituents[1:]) - Counter(theirs.constituents[1:])
        changed_tags = sum(one != other for one, other in zip(ours.tags, theirs.tags, strict=True))
        lost = len(theirs.constituents) - len(ours.constituents)
        assert n_changed == lost + changed_tags + (ours.constituents[0] != theirs.constituents[0])


def test_the_constituent_is_left_out_whose_absence_leaves_the_fewest_unknown_tokens():
    known = {"(S(A(x))", "(y))", *flat_tokens("S", "t", 1)}
    found = express(one_tree("(S (A (B (x v))) (y w))"), known, ("S", "t"), 1)
    assert found == (["(S(A(x))", "(y))"], 1)  # B; without A first, three are changed


def is_tree(tokens: list[str], n_words: int) -> bool:
    try:
        aligned_tree(tokens, [f"w{number}" for number in range(n_words)])
    except DataError:
        return False
    return True


@pytest.mark.parametrize("depth", [200, 3])
@both_forms
def test_the_grammar_allows_all_trees_of_its_tokens_and_nothing_else(per_word, depth, monkeypatch):
    for module in (grammar_of_forms, trees):
        monkeypatch.setattr(module, "MAX_DEPTH", depth)
    kinds = {
        1: ["(S(x)", "(x)", "(x))", "(S(x))", "(A(x)))", "(A(x))))", "(A(A(x)"],
        2: ["(S(x", "(x", ")", "))", ")))"],
    }[per_word]
    grammar = Grammar(kinds, per_word)
    for n_words in (1, 2, 3):
        allowed, reached = grammar.allowed(n_words), [[]]
        for _ in range(per_word * n_words):
            masks = allowed(np.array(reached, dtype=np.int64).reshape(len(reached), -1))
            assert masks.any(axis=1).all() and not masks[:, : UNK + 1].any()
            reached = [
                [*ids, token] for ids, mask in zip(reached, masks, strict=True) for token in np.flatnonzero(mask)
            ]
        assert (allowed(np.array(reached)) == (np.arange(grammar.n_ids) == EOS)).all()
        found = {tuple(kinds[token - UNK - 1] for token in ids) for ids in reached}
        everything = product(kinds, repeat=per_word * n_words)
        turns = [kind.startswith("(") for kind in ("(", ")")[:per_word]] * n_words
        in_turn = (each for each in everything if [kind.startswith("(") for kind in each] == turns)
        assert found == {each for each in in_turn if is_tree(list(each), n_words)}


def test_a_token_has_an_id_if_the_training_trees_have_it_twice():
    often, once = one_tree("(S (A (x a) (y b)) (z c))"), one_tree("(S (B (x a) (y b)) (z c))")
    bank = Treebank([often, once, often], "C")
    assert set(bank.kinds) == {*aligned_tokens(often, 1), *flat_tokens("S", "x", 1)}


def test_the_beam_that_is_asked_for_parses_and_trees_stand_in_the_order_of_the_sentences(monkeypatch):
    tree, searched = one_tree("(S (x a) (x b) (x c))"), []
    bank = Treebank([tree, tree], "C")

    def search(model, src, *, beam_size, allowed, **options):
        searched.append((src.shape, beam_size))
        ids = []
        for _ in range(src.shape[1] - 1):  # the first token that the grammar allows, but for EOS at the end
            ids.append(int(np.flatnonzero(allowed(np.array([ids], dtype=np.int64)))[0]))
        return [[Hypothesis(tuple(ids), 0.0, 0.0)] for _ in src]

    monkeypatch.setattr(treebank, "beam_search", search)
    sentences = [["a", "b", "c"], ["d"], ["e", "f", "g"], ["h", "i"]]
    found = bank.parse(None, sentences, beam_size=7, batch_tokens=100)
    assert [each.words() for each in found] == sentences
    assert searched == [((2, 4), 7), ((1, 2), 7), ((1, 3), 7)]  # of equal lengths together, with EOS


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Cloning", "<unk-C-ing>"),
        ("GFP", "<unk-A>"),
        ("mRNA", "<unk-M>"),
        ("12-fold", "<unk-d-h-old>"),
        ("cat", "<unk>"),
        ("-", "<unk>"),
    ],
)
def test_the_class_of_a_word_is_its_shape(word, name):
    assert word_class(word) == name


def words_of_counts() -> Words:
    rare = {f"{letters}ing": 1 for letters in ("abc", "bcd", "cde", "def", "efg", "fgh", "ghi", "hij", "ijk", "jkl")}
    return Words(Counter({"the": 100, "cat": 3, "dog": 2, "Rat": 1} | rare))


def test_rare_and_unknown_words_stand_as_their_classes():
    words = words_of_counts()
    assert words.names == ["<unk-C>", "<unk-ing>", "<unk>", "the", "cat"]
    names = [words.names[number - UNK - 1] for number in words.encode("the cat dog Rat abcing xxxxing Xxxxing".split())]
    assert names == ["the", "cat", "<unk>", "<unk-C>", "<unk-ing>", "<unk-ing>", "<unk-C>"]
    assert words.encode(["1999"]) == [UNK]  # no rare word of the training text has this shape


def test_word_dropout_is_drawn_from_seed_and_update_and_replaces_words_by_their_classes_alone():
    words = words_of_counts()
    the, cat, unknown = words.encode(["the", "cat", "dog"])
    src = [[the, cat, unknown] * 10] * 400
    batches = MicroBatches(BatchStream(src, src, src_tokens=31 * 50, tgt_tokens=31 * 50, seed=3), per_update=2)
    dropping, again = WordDropout(batches, words), WordDropout(batches, words)
    counts, drawn = Counter(), set()
    for update in range(1, 5):
        plain, dropped, same = batches.of_rank(update), dropping.of_rank(update), again.of_rank(update)
        for before, after, repeated in zip(plain, dropped, same, strict=True):
            np.testing.assert_array_equal(after.src, repeated.src)
            np.testing.assert_array_equal(after.tgt_in, before.tgt_in)
            drawn.add(after.src.tobytes())
            pairs = zip(before.src.ravel().tolist(), after.src.ravel().tolist(), strict=True)
            counts += Counter(pair for pair in pairs if pair[0] != pair[1])
    assert counts.keys() == {(the, unknown), (cat, unknown)}
    assert len(drawn) == 8  # all lines are alike: each micro-batch of each update draws its own
    n = 4 * 2 * 50 * 10  # of each word
    expected = n * WORD_DROPOUT / (WORD_DROPOUT + 3)
    assert abs(counts[cat, unknown] - expected) < 5 * expected**0.5
    assert counts[the, unknown] < n * 2 * WORD_DROPOUT / 100
