"""The search for heads: what it finds was planted, by chance it finds nothing, and it runs on any checkpoint."""

import base64
import sys
from pathlib import Path

import numpy as np
import pytest
from extras import need

from examples.number_words import draw_numbers, english, german
from examples.paper import heads
from examples.paper import heads_score as score
from examples.paper.heads_report import training_share
from minitransformer.checkpoints import save_checkpoint
from minitransformer.config import Config, ModelConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import PieceTokenizer, Tokenizer

CHECKPOINT = Path(__file__).parents[2] / "lessons" / "checkpoints" / "number_words.npz"


@pytest.mark.parametrize(
    ("pattern", "sentence", "expected"),
    [
        ("previous word", "a b c", [(1, 0), (2, 1)]),
        ("next word", "a b c", [(0, 1), (1, 2)]),
        ("determiner to its noun, 2 to 4 words on", "a little girl is in the old wooden house .", [(0, 2), (5, 8)]),
        ("pronoun to its antecedent", "a man and a woman who holds her dog in his arms", [(7, 4), (10, 1)]),
        (
            "verb to the word that completes it, 5 words on or more",
            "laws making the registration or voting process more difficult",
            [(1, 8)],
        ),
        ("verb to the word that completes it, 5 words on or more", "he picked it up", []),
    ],
)
def test_a_pattern_applies_where_it_should(pattern, sentence, expected):
    assert sorted(heads.PATTERNS[pattern](sentence.split())) == expected


@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_attention_between_words_is_that_of_their_subwords(rng, mode):
    text = "the unknown words of Zürich"
    tokenizer = Tokenizer.train([text, "the words of the words"], vocab_size=280 if mode == "bytes" else 40, mode=mode)
    words, owners = heads.split(tokenizer, text)
    ids = tokenizer.encode(text)
    assert words == [*text.lower().split(), "<eos>"] and len(owners) == len(ids) + 1
    weights = rng.dirichlet(np.ones(len(owners)), size=(2, 3, len(owners)))
    between = heads.by_words(weights, owners, owners)
    np.testing.assert_allclose(between.sum(axis=-1), 1, rtol=1e-5)
    mine, other = owners == 1, owners == 4
    expected = weights[1, 2][np.ix_(mine, other)].sum(axis=1).mean()
    np.testing.assert_allclose(between[1, 2, 1, 4], expected, rtol=1e-5)


def instances(rng, count: int) -> list:
    """Random attention of 2 layers of 4 heads to 9 words."""
    wanted = rng.integers(0, 9, count)
    return [score.Found(i, 0, int(each), rng.dirichlet(np.ones(9), size=(2, 4))) for i, each in enumerate(wanted)]


def test_a_planted_head_is_found_with_its_share(rng):
    found = instances(rng, 100)
    for each in found:
        each.weights[1, 2] *= 0.4
        each.weights[1, 2, each.wanted] += 0.6
    best = score.score(found, rng)
    assert (best.layer, best.head, best.n, best.is_found) == (2, 3, 50, True)
    assert best.share == pytest.approx(np.mean([each.weights[1, 2, each.wanted] for each in found[1::2]]))
    assert best.shuffled == pytest.approx(1 / 9, abs=0.02)


def test_random_heads_are_not_found_and_few_words_say_nothing(rng):
    assert not score.score(instances(rng, 400), rng).is_found
    assert score.score(instances(rng, 2 * score.FEWEST - 1), rng) is None


def test_the_head_is_chosen_by_one_half_of_the_sentences_and_measured_by_the_other(rng):
    """Another head is perfect in the half that measures, and has no part in the choice."""
    found = instances(rng, 100)
    for each in found:
        layer, head = (0, 1) if each.sentence % 2 else (1, 3)
        each.weights[layer, head] = 0.4 * each.weights[layer, head]
        each.weights[layer, head, each.wanted] += 0.6
        if each.sentence % 2:
            each.weights[layer, head] = np.eye(9)[each.wanted]
    best = score.score(found, rng)
    assert (best.layer, best.head, best.is_found) == (2, 4, False) and best.share < 0.2


@pytest.mark.parametrize(
    ("seen", "said"), [("a", "30 of the 40 sentences (75%)"), ("c", "None of the 40"), ("", "None")]
)
def test_the_text_that_a_model_was_trained_on_is_told_from_other_text(seen, said):
    assert said in training_share([(Path("a"), 30), (Path("b"), 10)], seen)


def found_of(rows, wanted) -> list:
    """What one head gives, to choose it and to measure it by the same numbers."""
    pairs = [pair for pair in zip(rows, wanted, strict=True) for _ in range(2)]
    return [score.Found(i, 3, int(each), np.array(row)[None, None]) for i, (row, each) in enumerate(pairs)]


def test_a_share_must_be_twice_the_mean_of_the_shuffles_and_above_each_of_them(rng):
    weak = score.score(found_of([np.full(9, 0.105) + 0.05 * np.eye(9)[5]] * 50, [5] * 50), rng)
    assert 1.3 < weak.share / weak.shuffled < 1.5 and not weak.is_found  # above each, and less than twice the mean
    few = score.score(found_of(np.eye(9)[[0, 1, 2, 3, 4, 5, 6, 7, 8, 1]], [0, 1, 2, *[0] * 7]), rng)
    assert few.share == pytest.approx(0.3) and few.share > 2 * few.shuffled and not few.is_found  # by chance


def test_shuffled_keys_are_all_words_of_a_sentence_alike(rng):
    """Everything is given to the first of three words, or of nine."""
    best = score.score(found_of([np.eye(n)[0] for n in (3, 9) * 30], [0] * 60), rng)
    assert best.share == 1 and best.shuffled == pytest.approx((1 / 3 + 1 / 9) / 2, abs=0.02)


def test_a_head_that_gives_less_than_to_other_words_at_the_distance_is_not_found(rng):
    distances, rows = score.Distances(), 0.05 + rng.uniform(0.5, 0.6, (40, 1)) * np.eye(9)[5]
    distances.add(np.eye(9, k=2)[None, None])
    best = score.score(found_of(rows, [5] * 40), rng, distances)
    assert best.share > 2 * best.shuffled and best.same_distance == 1 and not best.is_found


def test_a_head_that_looks_at_a_distance_is_not_found_for_words_that_are_there(rng):
    """One head gives 0.6 to the word two further on, whichever word it is; another to the wanted words alone."""
    for by_distance in (True, False):
        distances, found = score.Distances(), []
        for sentence in range(80):
            weights = rng.dirichlet(np.ones(9), size=(2, 4, 9))  # (L, H, queries, keys)
            queries = np.arange(7) if by_distance else np.array([3])
            weights[1, 2, queries] *= 0.4
            weights[1, 2, queries, queries + 2] += 0.6
            distances.add(weights)
            found.append(score.Found(sentence, 3, 5, weights[:, :, 3]))
        best = score.score(found, rng, distances)
        assert (best.layer, best.head, best.is_found) == (2, 3, not by_distance)
        assert best.same_distance == pytest.approx(0.64 if by_distance else 0.1 + 0.6 / 7, abs=0.04)


@pytest.mark.parametrize(
    ("pieces", "got"), [([["a"], ["a"]], "got pieces"), (None, "got a model trained on token ids only")]
)
def test_a_model_of_ids_or_of_pieces_has_no_words_to_search(pieces, got, tmp_path, monkeypatch, refused):
    one_piece = base64.b64decode("CgoKAWEVAAAAABgB")  # "a"
    text = PieceTokenizer([one_piece] * 2, pieces).dumps() if pieces else ""
    model = Transformer(ModelConfig(vocab_size=5, n_layers=1, d_model=8, d_ff=8, n_heads=2), seed=1)
    path, config = tmp_path / "model.npz", Config(model=model.config)
    save_checkpoint(path, model, Adam(model.parameters), update=1, config=config, tokenizer_text=text)
    (tmp_path / "en").write_text("a a a\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["heads", "--checkpoint", str(path), "--src", str(tmp_path / "en")])
    refused(heads.main(), "must contain a tokenizer of `bpe train`", got)


def test_the_search_runs_on_a_checkpoint_and_draws_what_it_finds(tmp_path, monkeypatch, capsys):
    need("matplotlib")
    numbers = draw_numbers(40, seed=4)
    for name, spell in (("en", english), ("de", german)):
        (tmp_path / name).write_text("".join(f"{spell(number)}\n" for number in numbers), encoding="utf-8")
    monkeypatch.setitem(heads.PATTERNS, "itself", lambda words: [(i, i) for i in range(len(words))])
    texts = ["--src", str(tmp_path / "en"), "--tgt", str(tmp_path / "de"), "--gallery", str(tmp_path / "gallery")]
    monkeypatch.setattr(sys, "argv", ["heads", "--checkpoint", str(CHECKPOINT), *texts])
    assert heads.main() == 0
    table = capsys.readouterr().out
    page = (tmp_path / "gallery" / "heads.md").read_text(encoding="utf-8")
    assert page.startswith("# What heads do\n") and f"\n\n{table}" in page
    assert "\n\nNone of the 40 sentences is from the training text" in page  # the checkpoint names none
    drawn = [path.stem for path in (tmp_path / "gallery").glob("*.svg")]
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) == len(heads.PATTERNS) + 1
    assert all(f"]({stem}.svg)" in page for stem in drawn)
    assert sorted(drawn) == sorted(row[0][2:].replace(" ", "_") for row in rows if row[-1] == "yes |")
