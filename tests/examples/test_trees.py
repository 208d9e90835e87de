"""Bracketed trees: reading, what is left out, their linear form, and the repair of ill-formed output."""

import re

import pytest

from examples.parsing.linear_trees import delinearize, linearize
from examples.parsing.trees import MAX_DEPTH, MAX_WORDS, Tree, bare_tree, parse_trees
from minitransformer.errors import DataError

EXAMPLE = "( (S (NP-SBJ-1 (PRP It)) (VP (VBZ is) (VP (VBN said) (NP (-NONE- *-1)))) (. .)) )"


def one_tree(text: str) -> Tree:
    (tree,) = parse_trees(text.split("\n"))
    return tree


def random_tree(rng, depth: int = 5) -> Tree:
    """A constituent of at most this depth. Chains of a label over itself occur, as in treebanks."""

    def child() -> Tree:
        if depth == 1 or rng.random() < 0.4:
            return Tree(str(rng.choice(["NN", "DT", ",", "-LRB-"])), word=str(rng.choice(["a", "b", "-LRB-", "é"])))
        return random_tree(rng, depth - 1)

    return Tree(str(rng.choice(["S", "NP", "VP"])), tuple(child() for _ in range(rng.integers(1, 4))))


def test_a_tree_is_read_with_its_labels_words_and_tags():
    tree = one_tree(EXAMPLE)
    assert (tree.label, tree.children[0].label) == ("TOP", "S")
    assert tree.words() == ["It", "is", "said", "*-1", "."]
    assert tree.tags() == ["PRP", "VBZ", "VBN", "-NONE-", "."]


def test_what_is_written_is_read_again(rng):
    trees = [random_tree(rng) for _ in range(200)]
    assert list(parse_trees(map(str, trees))) == trees


def test_only_ascii_blanks_separate_words():
    """No-break space and U+2028 occur within words of real treebanks."""
    assert one_tree("(NP (CD 10\u00a0000) (NN a\u2028b))").words() == ["10\u00a0000", "a\u2028b"]


def test_a_bracket_of_the_output_begins_a_token_even_without_a_blank():
    assert linearize(delinearize("(S(NP XX)NP(VP XX)VP)S", ["a", "b"])) == "(S (NP XX )NP (VP XX )VP )S"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (NN a))", '1:1: every "(" of a tree must be closed, got a tree with 1 still open'),
        ("(S (NN a))\n(S\n (NP (NN a)", '2:1: every "(" of a tree must be closed, got a tree with 2 still open'),
        ("(S (NN a)))", "1:11: a tree must begin with \"(\", got ')'"),
        ("\nhello (S (NN a))", "2:1: a tree must begin with \"(\", got 'hello'"),
        ("(S (NN a))\n()", '2:1: a bracket must hold a label and a word or brackets, got "()"'),
        ("(S (NP ) (NN a))", "1:4: a bracket must hold a label and a word or brackets, got only the label 'NP'"),
        ("(S\n (NN a b))", "2:8: a bracket must hold one word or brackets, got 'b' as well"),
        ("(S (NP the (NN cat)))", "1:12: a bracket must hold one word or brackets, got \"(\" after 'the'"),
        ("(S (NP (NN cat) sat))", "1:17: a bracket must hold one word or brackets, got 'sat' as well"),
        ("( (S (NN a))\n( (S (NN a)) )", '2:1: a bracket within a tree must have a label, got "("'),
        ("(S " + "(NN a)" * MAX_WORDS + "(NN b)", f"a tree must have at most {MAX_WORDS} words"),
        ("(S (NN \ufeff))", "1:4: a bracket must hold a label and a word or brackets, got only the label 'NN'"),
        ("(S " * 5000, f"brackets must be at most {MAX_DEPTH} deep"),
    ],
)
def test_an_ill_formed_tree_is_refused_with_line_and_column(text, message):
    with pytest.raises(DataError, match=re.escape(f":{message}" if message[0].isdigit() else message)):
        list(parse_trees(text.split("\n"), "wsj.mrg"))


def test_traces_function_tags_and_the_root_are_left_out():
    assert str(bare_tree(one_tree(EXAMPLE))) == "(S (NP (PRP It)) (VP (VBZ is) (VP (VBN said))) (. .))"
    assert str(bare_tree(one_tree("(NP=2 (-LRB- -LRB-) (ADJP-PRD|X (JJ b)))"))) == "(NP (-LRB- -LRB-) (ADJP (JJ b)))"
    assert bare_tree(one_tree("( (S (NP-SBJ (-NONE- *))) )")) is None


def test_the_linear_form_is_that_of_vinyals_and_kaiser():
    """The sentence of their Figure 2."""
    tree = one_tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
    assert linearize(tree, with_tags=True) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert linearize(tree) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"


def test_the_linear_form_and_the_words_give_the_tree_back(rng):
    for tree in (random_tree(rng) for _ in range(300)):
        assert delinearize(linearize(tree, with_tags=True), tree.words()) == tree


@pytest.mark.parametrize(
    ("linear", "repaired"),
    [
        ("(S (NP XX )NP (VP XX XX )VP )S", "(S (NP XX )NP (VP XX XX )VP )S"),
        ("(S (NP XX )NP (VP XX XX", "(S (NP XX )NP (VP XX XX )VP )S"),
        ("(S (NP XX (VP XX XX )S", "(S (NP XX (VP XX XX )VP )NP )S"),
        ("(S (NP XX )NP )PP (VP XX XX )VP )S", "(S (NP XX )NP (VP XX XX )VP )S"),
        ("(S (NP XX )NP (VP XX )VP )S", "(S (NP XX )NP (VP XX )VP XX )S"),
        ("(S (NP XX )NP (VP XX", "(S (NP XX )NP (VP XX )VP XX )S"),
        ("(S (NP XX )NP (VP XX XX XX XX )VP )S", "(S (NP XX )NP (VP XX XX )VP )S"),
        ("(S XX )S (NP )NP (S XX XX )S", "(TOP (S XX )S (S XX XX )S )TOP"),
        ("(S XX )S (NP XX )NP", "(TOP (S XX )S (NP XX )NP XX )TOP"),
        ("(TOP (S XX )S XX )TOP", "(TOP (S XX )S XX XX )TOP"),
        ("XX XX XX", "(TOP XX XX XX )TOP"),
        ("( ) )S", "(TOP XX XX XX )TOP"),
        ("", "(TOP XX XX XX )TOP"),
    ],
)
def test_ill_formed_output_is_repaired(linear, repaired):
    assert linearize(delinearize(linear, ["a", "b", "c"])) == repaired


def test_any_output_gives_a_tree_over_exactly_the_words(rng):
    for _ in range(300):
        words = ["w"] * int(rng.integers(1, 8))
        tokens = [*"(S (NP )NP )S XX XX ( ) <unk> (NP(S XX)S".split(), "(\tS", "(a\u00a0b", "\ufeff"]
        linear = " ".join(rng.choice(tokens, rng.integers(0, 30)))
        tree = delinearize(linear, words)
        assert tree.words() == words
        assert delinearize(linearize(tree, with_tags=True), words) == tree == one_tree(str(tree))
