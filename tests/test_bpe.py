"""Byte-pair encoding: the incremental trainer against a naive one, and against subword-nmt's own results."""

import gzip
import random
from collections import Counter
from itertools import islice

import pytest
from odd_text import TEXT, random_line

from minitransformer.text import Tokenizer, read_lines, word_counts
from minitransformer.text.bpe import CRITERIA, PairTable, apply_merges, learn_merges
from minitransformer.text.bpe_arrays import BpeArrays
from minitransformer.text.pretokenizers import END, PRETOKENIZERS, ByteLevel, EndOfWord
from minitransformer.text.word_counts import count_words, count_words_in_files


def naive_merges(words, min_count=2, criterion="frequency"):
    """The definition: count every pair of every word, merge the best one everywhere, begin again."""
    words, merges = [(list(symbols), count) for symbols, count in words], []
    while True:
        counts, single = Counter(), Counter()
        for symbols, count in words:
            for symbol in symbols:
                single[symbol] += count
            for pair in zip(symbols, symbols[1:], strict=False):
                counts[pair] += count
        counts = {pair: count for pair, count in counts.items() if count >= min_count}
        if not counts:
            return merges, [symbols for symbols, _ in words]
        if criterion == "frequency":
            best = max(counts, key=lambda pair: (counts[pair], pair))
        else:
            best = max(counts, key=lambda pair: (counts[pair] / (single[pair[0]] * single[pair[1]]), pair))
        merges.append(best)
        for symbols, _ in words:
            at = 0
            while at + 1 < len(symbols):
                if (symbols[at], symbols[at + 1]) == best:
                    symbols[at : at + 2] = ["".join(best)]
                at += 1


def random_table(rng, spelling, alphabet):
    """Spelled words of random text; few letters, so that ties and runs of one letter abound."""
    n_words, longest = rng.integers(1, 40), rng.integers(1, 14)
    words = ["".join(rng.choice(list(alphabet), rng.integers(1, longest + 1))) for _ in range(n_words)]
    return [(spelling.spell(word), int(rng.integers(1, 6))) for word in dict.fromkeys(words)]


@pytest.mark.parametrize("spelling", [ByteLevel, EndOfWord])
@pytest.mark.parametrize("alphabet", ["a", "ab", "abc</w>", "äß語a "])
@pytest.mark.parametrize("min_count", [1, 2, 7])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("table", [PairTable, BpeArrays])
def test_both_tables_learn_the_merges_of_counting_anew(rng, spelling, alphabet, min_count, criterion, table):
    for _ in range(12):
        words = random_table(rng, spelling, alphabet)
        learned = learn_merges(words, criterion=criterion, min_count=min_count, table=table)
        assert list(learned) == naive_merges(words, min_count, criterion)[0]


def test_both_tables_learn_the_same_merges_of_real_text(data_folder):
    lines = read_lines(data_folder / "multi30k" / "val.de")
    for spelling in (ByteLevel, EndOfWord):
        words = [(spelling.spell(word), count) for word, count in count_words(lines, spelling).items()]
        merges = [list(learn_merges(words, table=table)) for table in (PairTable, BpeArrays)]
        assert merges[0] == merges[1] and len(merges[0]) > 1000


def test_the_bare_ratio_of_word_pieces_begins_with_what_occurs_once():
    words = [(list("the"), 1000), (list("then"), 500), (list("qz"), 1)]
    assert next(learn_merges(words, criterion="word_piece", min_count=1)) == ("q", "z")
    assert next(learn_merges(words, criterion="word_piece", min_count=2)) == ("t", "h")


@pytest.mark.parametrize("spelling", [ByteLevel, EndOfWord])
def test_the_words_of_its_chunks_are_the_words_of_a_line(spelling):
    chooser = random.Random(3)
    spaces = ["".join(chooser.choices("a, \t\n\u00a0", k=chooser.randint(0, 12))) for _ in range(3000)]
    for line in [*TEXT, *spaces, *(random_line(chooser) for _ in range(500))]:
        assert [word for chunk in spelling.chunks(line) for word in spelling.split(chunk)] == spelling.split(line)


@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_words_of_files_are_counted_alike_in_parts_and_processes(tmp_path, mode, monkeypatch):
    lines = [random_line(random.Random(number)).replace("\n", " ").replace("\r", "") for number in range(300)]
    paths = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    paths[0].write_text("\n".join(lines), encoding="utf-8", newline="")
    paths[1].write_bytes(gzip.compress("\n".join(lines[:50]).encode() + b"\n"))
    expected = count_words([*lines, *lines[:50]], PRETOKENIZERS[mode])
    assert count_words_in_files(paths, mode) == expected
    assert expected == Counter(word for line in [*lines, *lines[:50]] for word in PRETOKENIZERS[mode].split(line))
    monkeypatch.setattr(word_counts, "PART", 1000)
    assert count_words_in_files(paths, mode, processes=2) == expected


def test_counts_stay_true_through_every_merge(rng):
    table = PairTable(random_table(rng, ByteLevel, "aab"))
    for pair in learn_merges(zip(table.words, table.frequencies, strict=True), min_count=1):
        table.merge(pair)
        counts = Counter()
        for symbols, frequency in zip(table.words, table.frequencies, strict=True):
            for found in zip(symbols, symbols[1:], strict=False):
                counts[found] += frequency
        assert {found: count for found, count in table.counts.items() if count} == counts


@pytest.mark.parametrize("spelling", [ByteLevel, EndOfWord])
def test_a_training_word_is_cut_as_training_left_it(rng, spelling):
    for _ in range(25):
        table = random_table(rng, spelling, "abc")
        merges, left = naive_merges(table)
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        assert [apply_merges(symbols, ranks) for symbols, _ in table] == left


def test_of_equally_frequent_pairs_the_one_that_sorts_last_is_merged_first():
    table = [(["a", "b"], 3), (["b", "a"], 3), (["b", "aa"], 3), (["c", "c"], 2)]
    assert list(learn_merges(table)) == [("b", "aa"), ("b", "a"), ("a", "b"), ("c", "c")]


def test_the_order_of_words_does_not_change_the_merges(rng):
    table = random_table(rng, ByteLevel, "abcd")
    shuffled = [table[place] for place in rng.permutation(len(table))]
    assert list(learn_merges(shuffled)) == list(learn_merges(table))


def test_overlapping_pairs_are_merged_from_the_left():
    assert apply_merges(list("aaaaa"), {("a", "a"): 0}) == ["aa", "aa", "a"]
    assert apply_merges(list("aaaaa"), {("a", "a"): 0, ("aa", "aa"): 1}) == ["aaaa", "a"]


def test_a_pair_that_occurs_once_is_not_merged():
    assert list(learn_merges([(["a", "b"], 1)])) == []
    assert list(learn_merges([(["a", "b"], 2)])) == [("a", "b")]


def test_training_does_not_change_the_table_it_is_given():
    table = [(["a", "b", "a", "b"], 2)]
    list(learn_merges(table))
    assert table == [(["a", "b", "a", "b"], 2)]


@pytest.fixture(scope="module")
def reference(data_folder):
    """subword-nmt's corpus, its 1,000 merges and its segmentation."""
    folder = data_folder / "bpe_reference"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return [read_lines(folder / name) for name in ("corpus.en", "bpe.ref", "corpus.bpe.ref.en")]


@pytest.mark.parametrize("table", [PairTable, BpeArrays])
def test_merges_equal_those_of_subword_nmt(reference, table):
    corpus, (version, *expected), _ = reference
    assert version == "#version: 0.2"
    words = Counter(word for line in corpus for word in EndOfWord.split(line))
    spelled = [(EndOfWord.spell(word), count) for word, count in words.items()]
    merges = learn_merges(spelled, table=table)
    assert [f"{left} {right}" for left, right in islice(merges, 1000)] == expected


def test_segmentation_equals_that_of_subword_nmt(reference):
    corpus, _, expected = reference
    characters = {character for line in corpus for character in line} - {" "}
    tokenizer = Tokenizer.train(corpus, 4 + 2 * len(characters) + 1000, mode="words")
    assert len(tokenizer.merges) == 1000
    assert [tokenizer.segment(line) for line in corpus] == expected
    assert [tokenizer.unsegment(line) for line in expected] == [" ".join(line.split()) for line in corpus]


def test_the_end_mark_tells_the_end_of_a_word_from_its_middle():
    assert EndOfWord.spell("aba") == ["a", "b", "a" + END]
    merges = list(learn_merges([(EndOfWord.spell("aba"), 2)]))
    assert merges == [("b", "a</w>"), ("a", "ba</w>")]
