"""From lines to translated lines: batches, order, limits, and the attention of a translation."""

from types import SimpleNamespace

import numpy as np
import pytest
from searches import ChainModel, random_sources, sharp_model

from minitransformer.config import BOS, EOS, TranslationConfig
from minitransformer.errors import DataError, ShapeError
from minitransformer.generation import (
    Hypothesis,
    beam_search,
    hypothesis_attention,
    search_lines,
    translate_lines,
)
from minitransformer.models import Transformer
from minitransformer.text import Tokenizer

LINES = ["the cat sat", "a dog", "", "the dog sat on the cat", "   ", "a cat", "dogs sat on cats on the mat"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 3, 40, mode="words")


def model_for(tokenizer: Tokenizer, **changes) -> Transformer:
    return sharp_model(3, vocab_size=tokenizer.vocab_size, max_positions=40, **changes)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_lines_are_translated_in_their_order_whatever_the_batches(tokenizer, beam_size):
    model = model_for(tokenizer)
    alone = []
    for line in LINES:
        alone += translate_lines(model, tokenizer, [line], TranslationConfig(beam_size=beam_size, max_extra=3))
    for batch_tokens in (1, 40, 4096):
        config = TranslationConfig(beam_size=beam_size, max_extra=3, batch_tokens=batch_tokens)
        assert translate_lines(model, tokenizer, LINES, config) == alone
    assert len(set(alone)) > 3


def test_a_line_is_translated_as_beam_search_translates_its_ids(tokenizer):
    model, config = model_for(tokenizer), TranslationConfig(beam_size=3, alpha=1.3, max_extra=2)
    source = np.array([[*tokenizer.encode(LINES[3]), EOS]])
    (expected,) = beam_search(model, source, beam_size=3, alpha=1.3, max_extra=2, n_best=3)
    assert search_lines(model, tokenizer, [LINES[3]], config, n_best=3) == [expected]
    assert search_lines(model, tokenizer, [LINES[3]], config) == [expected[:1]]
    assert translate_lines(model, tokenizer, [LINES[3]], config) == [tokenizer.decode(expected[0].ids)]


def test_words_after_any_number_of_spaces_are_translated(tokenizer):
    model, config = model_for(tokenizer), TranslationConfig(beam_size=1, max_extra=3, max_input_length=5)
    lines = ["a" + " " * 5000 + "dog", "a dog", "a"]
    spaced, plain, cut = translate_lines(model, tokenizer, lines, config)
    assert spaced == plain != cut
    with pytest.raises(ShapeError, match="line 1 must have at most 1 tokens"):
        translate_lines(model, tokenizer, lines, TranslationConfig(max_input_length=1))


def test_what_answers_like_a_model_translates_like_it(tokenizer):
    model = model_for(tokenizer)
    one = SimpleNamespace(config=model.config, max_positions=None, start=model.start, decode_step=model.decode_step)
    for beam_size in (1, 3):
        config = TranslationConfig(beam_size=beam_size, max_extra=3)
        assert translate_lines(one, tokenizer, LINES, config) == translate_lines(model, tokenizer, LINES, config)


def test_an_empty_line_gives_an_empty_output(tokenizer):
    model = model_for(tokenizer)
    for beam_size in (1, 4):
        assert translate_lines(model, tokenizer, ["", "  \t"], TranslationConfig(beam_size=beam_size)) == ["", ""]
    assert search_lines(model, tokenizer, [""], TranslationConfig()) == [[Hypothesis([], 0.0, 0.0)]]
    assert translate_lines(model, tokenizer, [], TranslationConfig()) == []


def test_a_translation_stays_one_line():
    tokenizer = Tokenizer.train(["a b"], 300, mode="bytes")
    line_feed = tokenizer.encode("\n")[0]
    model = ChainModel(np.where(np.arange(tokenizer.vocab_size) == line_feed, 0.0, -9.0) * np.ones((300, 1)))
    assert translate_lines(model, tokenizer, ["ab"], TranslationConfig(beam_size=1, max_extra=1)) == ["   "]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("damage", [np.nan, np.inf, 1e200])
def test_a_damaged_model_is_refused_without_warnings(tokenizer, damage):
    model = model_for(tokenizer)
    model.parameters.data[:] = damage
    with pytest.raises(ShapeError, match="must be numbers, got NaN"):
        translate_lines(model, tokenizer, LINES, TranslationConfig())
    with pytest.raises(ShapeError, match="attention weights must be numbers, got NaN"):
        hypothesis_attention(model, [4, 5], [6])


def test_ids_that_the_tokenizer_does_not_know_are_refused(tokenizer):
    model = ChainModel(np.eye(tokenizer.vocab_size + 1)[[-1] * (tokenizer.vocab_size + 1)])
    with pytest.raises(DataError, match="token ids must be from 0"):
        translate_lines(model, tokenizer, ["a cat"], TranslationConfig(beam_size=1))


def test_the_attention_of_a_hypothesis_has_a_row_for_each_token_and_eos():
    model, src = sharp_model(2, n_layers=2), random_sources(1, (4,))
    maps = hypothesis_attention(model, src[0, :-1].tolist(), [4, 3, 5])
    assert maps["decoder.1.cross_attention"].shape == (2, 4, 5)
    whole = model.attention_maps(src, np.array([[BOS, 4, 3, 5]]))
    for name, weights in maps.items():
        np.testing.assert_array_equal(weights, whole[name][0])
