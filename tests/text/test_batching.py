"""Batching: every pair once per epoch, within budgets; the same seed gives the same batches in any order."""

import numpy as np
import pytest

from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import DataError
from minitransformer.text import BatchStream, pad_batch
from minitransformer.text.batching import round_up


def random_corpus(rng, n_pairs, longest=40):
    """Sides of loosely related lengths, ids from 4 on, a few of them empty."""
    src_lengths = rng.integers(0, longest, n_pairs)
    tgt_lengths = np.clip(src_lengths + rng.integers(-5, 6, n_pairs), 0, longest)
    return tuple([rng.integers(4, 90, length).tolist() for length in side] for side in (src_lengths, tgt_lengths))


@pytest.fixture
def corpus(rng):
    return random_corpus(rng, 700)


def stream(corpus, src_tokens=300, tgt_tokens=250, seed=3):
    return BatchStream(*corpus, src_tokens=src_tokens, tgt_tokens=tgt_tokens, seed=seed)


def same(batch, other):
    return all(np.array_equal(getattr(batch, name), getattr(other, name)) for name in vars(batch))


# One batch


def test_special_ids_and_padding_surround_each_sentence():
    batch = pad_batch([[5, 6, 7], []], [[8], [9, 10]])
    assert batch.src.tolist() == [[5, 6, 7, EOS], [EOS, PAD, PAD, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 8, PAD], [BOS, 9, 10]]
    assert batch.tgt_out.tolist() == [[8, EOS, PAD], [9, 10, EOS]]
    assert batch.rows.tolist() == [0, 1]
    assert {batch.src.dtype, batch.tgt_in.dtype, batch.tgt_out.dtype} == {np.dtype("int32")}


def test_tokens_are_counted_without_padding(rng):
    src, tgt = random_corpus(rng, 9)
    batch = pad_batch(src, tgt)
    assert batch.n_src_tokens == sum(map(len, src)) + 9
    assert batch.n_tgt_tokens == sum(map(len, tgt)) + 9 == np.count_nonzero(batch.tgt_in)


def test_a_batch_without_pairs_or_with_uneven_sides_is_refused():
    for src, tgt in (([], []), ([[4]], [[4], [5]])):
        with pytest.raises(DataError, match="same number of sentences, at least one"):
            pad_batch(src, tgt)
        with pytest.raises(DataError, match="same number of sentences, at least one"):
            stream((src, tgt))


# A stream of batches


@pytest.mark.parametrize("n_pairs", [1, 2, 50, 700])
def test_every_pair_occurs_exactly_once_in_every_epoch(rng, n_pairs):
    batches = stream(random_corpus(rng, n_pairs))
    for epoch in range(4):
        assert sorted(np.concatenate(batches.epoch(epoch)).tolist()) == list(range(n_pairs))


@pytest.mark.parametrize(("src_tokens", "tgt_tokens"), [(41, 41), (43, 1000), (1000, 57), (300, 300), (10**6, 10**6)])
def test_budgets_hold_for_padded_positions(corpus, src_tokens, tgt_tokens):
    batches = stream(corpus, src_tokens, tgt_tokens)
    for number in range(2 * batches.batches_per_epoch):
        batch = batches.batch(number)
        assert batch.src.size <= src_tokens and batch.tgt_in.size <= tgt_tokens and batch.tgt_out.size <= tgt_tokens


def test_batches_contain_the_pairs_of_their_rows(corpus):
    src, tgt = corpus
    batch = stream(corpus).batch(5)
    for at, row in enumerate(batch.rows):
        assert [token for token in batch.src[at].tolist() if token != PAD] == [*src[row], EOS]
        assert [token for token in batch.tgt_out[at].tolist() if token != PAD] == [*tgt[row], EOS]


def test_batches_do_not_depend_on_the_order_of_requests(corpus, rng):
    in_order, asked, n = stream(corpus), stream(corpus), 3 * stream(corpus).batches_per_epoch
    expected = [in_order.batch(number) for number in range(n)]
    assert all(same(asked.batch(number), expected[number]) for number in rng.permutation(n).tolist())


def test_batch_numbers_continue_through_the_epochs(corpus):
    batches = stream(corpus)
    numbered = [batches.batch(number).rows.tolist() for number in range(3 * batches.batches_per_epoch)]
    assert numbered == [rows.tolist() for epoch in range(3) for rows in batches.epoch(epoch)]
    positions = [batches.position(number) for number in range(len(numbered))]
    assert positions == [(epoch, index) for epoch in range(3) for index in range(batches.batches_per_epoch)]


def test_the_seed_determines_the_batches(corpus):
    one, other = stream(corpus, seed=3), stream(corpus, seed=4)
    assert all(same(one.batch(number), stream(corpus, seed=3).batch(number)) for number in range(20))
    assert not any(np.array_equal(one.batch(number).rows, other.batch(number).rows) for number in range(20))


def test_every_epoch_has_other_batches_in_an_order_of_its_own(corpus):
    """Pairs of about one length meet by chance, and batches do not come in the order of their lengths."""
    batches = stream(corpus)
    epochs = [batches.epoch(number) for number in (0, 1)]
    groups = [{frozenset(rows.tolist()) for rows in epoch} for epoch in epochs]
    assert len(groups[0] & groups[1]) < len(epochs[0]) / 4
    lengths = [[batches.tgt_lengths[rows].mean() for rows in epoch] for epoch in epochs]
    by_place = np.corrcoef([range(len(epochs[0])), *lengths])
    assert np.abs(by_place - np.eye(3)).max() < 0.5


def test_short_and_long_sentences_do_not_share_a_batch(rng):
    """Little is padding, though batches are as full as their budgets allow."""
    batches = stream(random_corpus(rng, 20000), src_tokens=1000, tgt_tokens=1000)
    shapes = np.array([batches.shape(number) for number in range(batches.batches_per_epoch)])
    positions = shapes[:, :1] * shapes[:, 1:]  # of the source, of the target
    assert 1 - (batches.src_lengths.sum() + batches.tgt_lengths.sum()) / positions.sum() < 0.1
    assert positions.max(axis=1).mean() > 970


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sentence_longer_than_a_budget_is_refused(side):
    pairs = {"source": ([[4], [4] * 10], [[4], [4]]), "target": ([[4], [4]], [[4], [4] * 10])}[side]
    assert stream(pairs, src_tokens=11, tgt_tokens=11).batches_per_epoch == 2
    with pytest.raises(
        DataError, match=rf"every {side} sentence must fit into {side[0]}\w+ = 10, got 11 tokens in row 1"
    ):
        stream(pairs, src_tokens=10, tgt_tokens=10)


def test_length_buckets_are_split_as_sentence_by_sentence(rng):
    """The slow way: sort all pairs by rounded lengths, add them one by one, start a new batch if a budget is full."""
    for _ in range(20):
        budget = int(rng.integers(64, 400))
        src, tgt = ([[5] * int(n) for n in rng.integers(1, 63, 300)] for _ in range(2))
        stream = BatchStream(src, tgt, src_tokens=budget, tgt_tokens=budget, seed=1)
        lengths = [round_up(np.array([len(seq) + 1 for seq in side]), budget).tolist() for side in (src, tgt)]
        order = sorted(set(lengths[1]))
        pairs = sorted(
            zip(*lengths, strict=True),
            key=lambda pair: (pair[1], -pair[0] if order.index(pair[1]) % 2 else pair[0]),
        )
        batches, batch = [], []
        for pair in pairs:
            grown = [*batch, pair]
            if any(len(grown) * max(each[side] for each in grown) > budget for side in (0, 1)):
                batches.append(batch)
                grown = [pair]
            batch = grown
        batches.append(batch)
        found = [[(lengths[0][row], lengths[1][row]) for row in rows.tolist()] for rows in stream.epoch(0)]
        assert sorted(found) == sorted(batches)
