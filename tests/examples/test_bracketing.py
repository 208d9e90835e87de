"""Labeled bracket F1: cases worked by hand, identities, and an outside scorer."""

from dataclasses import asdict
from itertools import islice

import pytest
from extras import need
from test_trees import one_tree

from examples.parsing import bracketing
from examples.parsing.bracketing import BracketScore, bracket_score, corpus_bracket_score
from examples.parsing.linear_trees import delinearize, linearize
from examples.parsing.trees import Tree, bare_tree, read_trees

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog)) (PP (IN in) (NP (NN town)))) (. .)))"


def score(predicted: str, reference: str) -> BracketScore:
    return bracket_score(one_tree(predicted), one_tree(reference))


def counts(predicted: str, reference: str) -> tuple[int, int, int]:
    result = score(predicted, reference)
    return result.matched, result.predicted, result.reference


def relabeled(rng, tree: Tree, share: float) -> Tree:
    """``tree`` with this share of its constituents under another label and, of those, half taken apart."""
    if tree.word is not None:
        return tree
    children = tuple(relabeled(rng, child, share) for child in tree.children)
    if rng.random() >= share:
        return Tree(tree.label, children)
    middle = len(children) // 2
    parted = (Tree("X", children[:middle]), Tree("Y", children[middle:])) if middle else children
    return Tree(str(rng.choice(["NP", "VP", "S"])), parted if rng.random() < 0.5 else children)


def test_attaching_the_phrase_to_the_noun_adds_one_constituent():
    """Reference: S NP VP NP PP NP. The other has NP(a dog in town) besides: 6 of 7 right, 6 of 6 found."""
    other = (
        "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (NN town))))) (. .)))"
    )
    result = score(other, GOLD)
    assert (result.matched, result.predicted, result.reference) == (6, 7, 6)
    assert (result.precision, result.recall) == (pytest.approx(600 / 7), 100)
    assert result.f1 == pytest.approx(100 * 12 / 13)
    assert (result.exact_match, result.tagging_accuracy) == (0, 100)


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ("(S (A (P this)) (B (Q is) (A (R a) (T test))))", (4, 4, 4, 4)),
        ("(S (A (P this)) (B (Q is) (C (R a) (T test))))", (3, 4, 4, 4)),
        ("(S (A (P this)) (B (Q is) (A (R a) (U test))))", (4, 4, 4, 3)),
        ("(S (C (P this)) (B (Q is) (A (R a) (U test))))", (3, 4, 4, 3)),
        ("(S (A (P this)) (B (Q is) (R a) (A (T test))))", (3, 4, 4, 4)),
        ("(S (A (P this) (Q is)) (A (R a) (T test)))", (2, 4, 3, 4)),
        ("(S (P this) (Q is) (R a) (T test))", (1, 4, 1, 4)),
        ("(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", (4, 4, 5, 4)),
        ("(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))", (4, 4, 8, 4)),
        ("(S (A (P this)) (B (Q was) (A (A (R a) (T test)))))", None),
        ("(S (A (P this)) (B (Q is) (U not) (A (A (R a) (T test)))))", None),
        ("(TOP (S (A (P this)) (B (Q is) (A (R a) (T test)))))", (4, 4, 4, 4)),
        ("(S (A (P this)) (B (Q is) (A (R a) (TT test))))", (4, 4, 4, 4)),
        ("(S (A-SBJ-1 (P this)) (B-WHATEVER (Q is) (A (R a) (T test))))", (4, 4, 4, 4)),
        ("(S (A (P this)) (B (Q is) (A (R a) (T test))) (-NONE- *))", (4, 4, 4, 4)),
    ],
)
def test_counts_are_those_that_evalb_publishes_for_its_sample(predicted, expected, monkeypatch):
    """sample.rsl of EVALB: matched, reference, predicted, correct tags; None where it reports an error."""
    reference = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"
    monkeypatch.setattr(bracketing, "EQUIVALENT", {"TT": "T"})
    result = score(predicted, reference)
    assert result.skipped == (expected is None)
    assert (result.matched, result.reference, result.predicted, result.correct_tags) == (expected or (0, 0, 0, 0))


def test_punctuation_is_left_out_of_every_constituent():
    """Where the comma hangs makes no difference, nor does a constituent of punctuation alone."""
    low = "(S (NP (NN a) (, ,)) (VP (VB b)) (PRN (`` ``) ('' '')))"
    assert counts("(S (NP (NN a)) (, ,) (VP (VB b)) (`` ``) ('' ''))", low) == (3, 3, 3)


@pytest.mark.parametrize("tag", [",", ":", "``", "''", "."])
def test_punctuation_is_what_the_reference_tags_as_one_of_five_kinds(tag):
    """Those of EVALB's COLLINS.prm; the parser's own tags may be XX."""
    low = f"(S (NP (NN a) ({tag} ,)) (VP (VB b)))"
    for high in (f"(S (NP (NN a)) ({tag} ,) (VP (VB b)))", "(S (NP (XX a)) (XX ,) (VP (XX b)))"):
        assert counts(high, low) == (3, 3, 3)
    assert score(low, low).words == 2


@pytest.mark.parametrize("root", ["TOP", "ROOT", "S1"])
def test_a_root_above_the_sentence_counts_on_neither_side(root):
    sentence = "(S (NP (NN a)))"
    assert counts(f"({root} {sentence})", sentence) == counts(sentence, f"({root} {sentence})") == (2, 2, 2)


def test_particle_phrases_count_as_adverb_phrases():
    assert counts("(VP (VB a) (ADVP (RB up)))", "(VP (VB a) (PRT (RP up)))") == (2, 2, 2)


def test_the_same_constituent_twice_must_be_found_twice():
    assert counts("(S (NP (NN a)))", "(S (NP (NP (NN a))))") == (2, 2, 3)
    assert counts("(S (NP (NP (NN a))))", "(S (NP (NN a)))") == (2, 3, 2)
    assert counts("(S (NP (NP (NN a))))", "(S (NP (NP (NN a))))") == (3, 3, 3)


def test_a_sentence_of_traces_alone_or_with_other_words_is_skipped():
    good, empty, other = map(one_tree, ("(S (NP (NN a)))", "(S (NP (-NONE- a)))", "(S (NP (NN b)))"))
    result = corpus_bracket_score([good, empty, other], [good, good, good])
    assert (result.sentences, result.skipped, result.reference) == (3, 2, 2)
    assert (result.f1, result.exact_match) == (100, 100)


def test_f1_of_a_test_set_is_that_of_its_summed_counts(rng):
    trees = [one_tree(GOLD), one_tree("(S (NP (NN a)) (VP (VB b)))"), one_tree("(S (VP (VB go)))")]
    others = [relabeled(rng, tree, 0.5) for tree in trees]
    parts = [asdict(bracket_score(*pair)) for pair in zip(others, trees, strict=True)]
    assert asdict(corpus_bracket_score(others, trees)) == {name: sum(p[name] for p in parts) for name in parts[0]}


def test_what_the_linear_form_keeps_is_all_that_is_scored(data_folder):
    references = list(islice(read_trees(data_folder / "craft_trees" / "dev.mrg"), 0, None, 8))
    bare = [bare_tree(tree) for tree in references]
    restored = [delinearize(linearize(tree), tree.words()) for tree in bare]
    result = corpus_bracket_score(restored, references)
    assert (result.f1, result.exact_match, result.skipped) == (100, 100, 0)


def test_counts_are_those_of_pyevalb(rng, data_folder, monkeypatch):
    """It counts every label, punctuation too, and the same constituent only once."""
    need("PYEVALB")
    monkeypatch.setattr(bracketing, "IGNORED", set())
    monkeypatch.setattr(bracketing, "EQUIVALENT", {})
    from PYEVALB import parser, scorer

    n_compared = 0
    for tree in islice(read_trees(data_folder / "craft_trees" / "dev.mrg"), 120):
        reference = bare_tree(tree)
        other = relabeled(rng, reference, 0.2)
        ours = bracket_score(other, reference)
        theirs = scorer.Scorer().score_trees(*(parser.create_from_bracket_string(str(t)) for t in (reference, other)))
        expected = (theirs.test_brackets, theirs.gold_brackets, theirs.words)
        assert (ours.predicted, ours.reference, ours.words) == expected
        if not any("(NP (NP" in str(t) for t in (reference, other)):
            n_compared += 1
            assert ours.matched == theirs.matched_brackets
    assert n_compared > 10
