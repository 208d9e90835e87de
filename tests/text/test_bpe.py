"""Byte-pair encoding: the fast trainer against the naive one, and against the results of subword-nmt."""

import doctest
import gzip
import math
import random
import time
from collections import Counter
from functools import reduce
from itertools import islice

import pytest
from odd_text import TEXT, random_line

from minitransformer.errors import DataError
from minitransformer.text import Tokenizer, bpe, processes, read_lines
from minitransformer.text.bpe import (
    CRITERIA,
    apply_merges,
    count_pairs,
    count_symbols,
    merge_pair,
    naive_merges,
    word_piece_score,
)
from minitransformer.text.learn_merges import learn_merges
from minitransformer.text.pretokenizers import END, PRETOKENIZERS, ByteLevel, EndOfWord
from minitransformer.text.tokenizer import LONG_WORD
from minitransformer.text.vocabulary_file import read_symbol
from minitransformer.text.word_counts import count_words, count_words_in_files


def log_likelihood(words, probabilities):
    """Of a text under a unigram model of its symbols, nats."""
    return sum(count * math.log(probabilities[symbol]) for symbols, count in words for symbol in symbols)


def random_table(rng, pretokenizer, alphabet):
    """Spelled words of random text; few letters, so that ties and runs of one letter abound."""
    n_words, longest = rng.integers(1, 40), rng.integers(1, 14)
    words = ["".join(rng.choice(list(alphabet), rng.integers(1, longest + 1))) for _ in range(n_words)]
    return [(pretokenizer.symbols(word), int(rng.integers(1, 6))) for word in dict.fromkeys(words)]


def test_the_worked_examples_in_the_docstrings_are_true():
    results = doctest.testmod(bpe)
    assert results.attempted >= 2 and results.failed == 0


@pytest.mark.parametrize("pretokenizer", [ByteLevel, EndOfWord])
@pytest.mark.parametrize("alphabet", ["a", "ab", "abc</w>", "äß語a "])
@pytest.mark.parametrize("min_count", [1, 2, 7])
def test_the_fast_trainer_learns_the_merges_of_the_naive_one(rng, pretokenizer, alphabet, min_count):
    for _ in range(24):
        words = random_table(rng, pretokenizer, alphabet)
        for criterion in CRITERIA:
            options = {"criterion": criterion, "min_count": min_count}
            assert list(learn_merges(words, **options)) == naive_merges(words, 10**6, **options)


def test_the_wordpiece_score_is_the_likelihood_that_a_merge_gains_with_probabilities_held(rng):
    for _ in range(20):
        words = [(symbols, count) for symbols, count in random_table(rng, ByteLevel, "abc") if len(symbols) > 1]
        single, pairs = count_symbols(words), count_pairs(words)
        total = single.total()
        for (left, right), count in pairs.items():
            if left == right:
                continue  # in a a a the pair occurs twice and is merged once
            merged = [(merge_pair(symbols, (left, right)), often) for symbols, often in words]
            held = {symbol: often / total for symbol, often in single.items()} | {left + right: count / total}
            gained = log_likelihood(merged, held) - log_likelihood(words, held)
            score = word_piece_score(count, single[left], single[right], total)
            assert score == pytest.approx(gained, abs=1e-9)


def test_wordpiece_takes_neither_the_most_frequent_pair_nor_what_occurs_once():
    """a b is frequent because a and b are; q z occurs once and nowhere else, which gains little; x y gains most."""
    words = [(list(word), 100) for word in ("aa", "ab", "ba", "bb")] + [(list("xy"), 40), (list("qz"), 1)]
    assert next(learn_merges(words, min_count=1)) == ("b", "b")
    assert next(learn_merges(words, criterion="word_piece", min_count=1)) == ("x", "y")
    assert naive_merges(words, 1, criterion="word_piece", min_count=1) == [("x", "y")]


@pytest.mark.parametrize("pretokenizer", [ByteLevel, EndOfWord])
def test_the_words_of_chunks_are_the_words_of_their_lines(pretokenizer):
    rng = random.Random(3)
    spaces = ["".join(rng.choices("a, \t\n\u00a0", k=rng.randint(0, 12))) for _ in range(3000)]
    for line in [*TEXT, *spaces, *(random_line(rng) for _ in range(500))]:
        words = pretokenizer.split(line)
        assert [word for chunk in pretokenizer.chunks(line) for word in pretokenizer.split(chunk)] == words


@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_words_of_files_are_counted_alike_in_parts_and_processes(tmp_path, mode, monkeypatch):
    lines = [random_line(random.Random(number)).replace("\n", " ").replace("\r", "") for number in range(300)]
    paths = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    paths[0].write_text("\n".join(lines), encoding="utf-8", newline="")
    paths[1].write_bytes(gzip.compress("\n".join(lines[:50]).encode() + b"\n"))
    expected = count_words([*lines, *lines[:50]], PRETOKENIZERS[mode])
    assert count_words_in_files(paths, mode) == expected
    assert expected == Counter(word for line in [*lines, *lines[:50]] for word in PRETOKENIZERS[mode].split(line))
    monkeypatch.setattr(processes, "CHUNK_LINES", 20)
    assert count_words_in_files(paths, mode, processes=2) == expected
    paths[1].write_bytes(gzip.compress(b"good\n" * 500 + b"b\xffd\n"))
    with pytest.raises(DataError, match="gz:501: must be UTF-8, got byte 0xff at byte 2 of the line"):
        count_words_in_files(paths, mode)


@pytest.mark.parametrize("pretokenizer", [ByteLevel, EndOfWord])
def test_applying_merges_is_merging_each_pair_in_turn(rng, pretokenizer):
    for _ in range(25):
        merges = naive_merges(random_table(rng, pretokenizer, "abc"), 100)
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        for symbols, _ in random_table(rng, pretokenizer, "abc"):  # words of the training text and others
            assert apply_merges(symbols, ranks) == reduce(merge_pair, merges, symbols)


def test_of_equally_frequent_pairs_the_one_that_sorts_last_is_merged_first():
    table = [(["a", "b"], 3), (["b", "a"], 3), (["b", "aa"], 3), (["c", "c"], 2)]
    expected = [("b", "aa"), ("b", "a"), ("a", "b"), ("c", "c")]
    assert list(learn_merges(table)) == naive_merges(table, 9) == expected


def test_a_pair_that_occurs_once_is_not_merged():
    assert list(learn_merges([(["a", "b"], 1)])) == naive_merges([(["a", "b"], 1)], 9) == []
    assert list(learn_merges([(["a", "b"], 2)])) == naive_merges([(["a", "b"], 2)], 9) == [("a", "b")]


@pytest.fixture(scope="module")
def reference(data_folder):
    """subword-nmt's corpus, its 1,000 merges and its segmentation."""
    folder = data_folder / "bpe_reference"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return [read_lines(folder / name) for name in ("corpus.en", "bpe.ref", "corpus.bpe.ref.en")]


def test_merges_equal_those_of_subword_nmt(reference):
    corpus, (version, *expected), _ = reference
    assert version == "#version: 0.2"
    words = Counter(word for line in corpus for word in EndOfWord.split(line))
    table = [(EndOfWord.symbols(word), count) for word, count in words.items()]
    assert [f"{left} {right}" for left, right in islice(learn_merges(table), 1000)] == expected
    assert [f"{left} {right}" for left, right in naive_merges(table, 20)] == expected[:20]


def test_segmentation_equals_that_of_subword_nmt(reference):
    corpus, _, expected = reference
    characters = {character for line in corpus for character in line} - {" "}
    tokenizer = Tokenizer.train(corpus, 4 + 2 * len(characters) + 1000, mode="words")
    assert len(tokenizer.merges) == 1000
    for line, segments in zip(corpus, expected, strict=True):
        subwords = [read_symbol(each, "words") for each in tokenizer.subwords(tokenizer.encode(line))]
        assert [each.removesuffix(END) if each.endswith(END) else each + "@@" for each in subwords] == segments.split()


def test_a_long_word_is_merged_in_parts_and_in_bounded_time(rng):
    tokenizer = Tokenizer.train(["".join(rng.choice(list("abc"), 12)) for _ in range(300)], 200, mode="words")
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    for length in (255, 256, 257, 2_000):
        symbols = EndOfWord.symbols(word := "".join(rng.choice(list("abc"), length)))
        parts = (symbols[at : at + LONG_WORD] for at in range(0, length, LONG_WORD))
        expected = [symbol for part in parts for symbol in apply_merges(part, ranks)]
        assert tokenizer.subwords(tokenizer.encode(word)) == expected
    start = time.process_time()
    tokenizer.encode("".join(rng.choice(list("abc"), 100_000)))
    assert time.process_time() - start < 10.0


def test_no_merge_is_learned_across_the_parts_of_a_long_word():
    assert Tokenizer.train(["a" * 4 * LONG_WORD], 1000, "words").longest_symbol <= LONG_WORD
