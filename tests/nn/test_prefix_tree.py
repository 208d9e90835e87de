"""The slots of a prefix tree, against partial hypotheses that remember each of their tokens by themselves."""

import numpy as np
import pytest

from minitransformer.nn.prefix_tree import PrefixTree


def grown(seed):
    """After each step of a random beam: the tree, and for each row (its sentence, its tokens), followed by hand.

    A token is a number of its own; its sentence and slot are noted when it is stored and when it moves.
    """
    rng = np.random.default_rng(seed)
    tree, rows, stored, number = PrefixTree(5), [(sentence, []) for sentence in range(5)], {}, 0
    for _ in range(40):
        for row, slot in enumerate(tree.extend()):
            stored[tree.sentences[row], slot] = number
            rows[row] = (rows[row][0], [*rows[row][1], number])
            number += 1
        survivors = np.sort(rng.integers(0, len(rows), rng.integers(1, 12)))
        rng.shuffle(survivors)
        moving, gaps = tree.keep(survivors)
        moved = {gap: sentence for sentence, gap in zip(moving, gaps, strict=True)}
        slots = {slot for _, slot in stored}
        stored |= {(to, slot): stored[at, slot] for to, at in moved.items() for slot in slots if (at, slot) in stored}
        rows = [rows[row] for row in survivors]
        yield tree, rows, stored


@pytest.mark.parametrize("seed", range(20))
def test_every_row_finds_its_own_tokens_and_no_others(seed):
    for tree, rows, stored in grown(seed):
        for row, (_, tokens) in enumerate(rows):
            found = {stored[tree.sentences[row], slot] for slot in np.flatnonzero(tree.slots[row])}
            assert found == set(tokens)


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_sentence_stay_grouped_and_sentences_without_rows_leave(seed):
    for tree, rows, _ in grown(seed):
        names = [name for name, _ in rows]
        numbers = dict(zip(names, tree.sentences.tolist(), strict=True))
        assert [numbers[name] for name in names] == tree.sentences.tolist()
        assert sorted(set(tree.sentences)) == list(range(tree.n_sentences)) == list(range(len(set(names))))
        assert tree.width == max(names.count(name) for name in names)
        assert len(set(tree.grouped_rows)) == len(rows)
        np.testing.assert_array_equal(tree.grouped_rows // tree.width, tree.sentences)
        grouped = tree.group(tree.slots)
        np.testing.assert_array_equal(grouped[tree.sentences, tree.grouped_rows % tree.width], tree.slots)


def test_tokens_that_all_rows_share_are_stored_once():
    tree = PrefixTree(2)
    for _ in range(30):
        tree.extend()
    tree.keep(np.array([0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(tree.extend(), [30, 31, 32, 33, 30])
    assert tree.slots.shape == (5, 34)
    np.testing.assert_array_equal(tree.slots.sum(axis=1), 31)
