"""What takes lines refuses anything else, a single string first of all: its letters would be the lines."""

import pytest
from small_models import small_config

from minitransformer.config import TranslationConfig
from minitransformer.errors import DataError
from minitransformer.generation import translate_lines
from minitransformer.models import build_model
from minitransformer.text import Tokenizer
from minitransformer.training import Corpus

TOKENIZER = Tokenizer.train(["ab cd"] * 3, 20, mode="words")
ONE_STRING = {
    "Tokenizer.train": lambda: Tokenizer.train("train.en", 300),
    "encode_lines": lambda: TOKENIZER.encode_lines("ab cd"),
    "from_lines": lambda: Corpus.from_lines(TOKENIZER, ("ab", "cd")),
    "from_lines, one side": lambda: Corpus.from_lines(TOKENIZER, (["ab", "cd"], "cd")),
    "from_lines, validation": lambda: Corpus.from_lines(TOKENIZER, (["ab"], ["cd"]), ("ab", "cd")),
    "translate_lines": lambda: translate_lines(build_model(small_config()), TOKENIZER, "ab cd", TranslationConfig()),
    "bytes": lambda: translate_lines(build_model(small_config()), TOKENIZER, b"ab cd", TranslationConfig()),
}


@pytest.mark.parametrize("use", ONE_STRING)
def test_a_string_is_not_taken_for_a_list_of_lines(use):
    with pytest.raises(DataError, match=r"lines must be a list of strings, got one, b?'.*'; write \[line\]"):
        ONE_STRING[use]()


NOT_LINES = {
    "Tokenizer.train": lambda wrong: Tokenizer.train(wrong, 300),
    "encode_lines": TOKENIZER.encode_lines,
    "from_lines": lambda wrong: Corpus.from_lines(TOKENIZER, (wrong, ["cd"])),
    "translate_lines": lambda wrong: translate_lines(
        build_model(small_config()), TOKENIZER, wrong, TranslationConfig()
    ),
}


@pytest.mark.parametrize("use", NOT_LINES)
@pytest.mark.parametrize("wrong", [None, 5, [None], ["ab", 5], [b"ab"]], ids=repr)
def test_lines_are_strings(use, wrong):
    with pytest.raises(DataError, match="lines must be a list of strings, got "):
        NOT_LINES[use](wrong)


def test_from_lines_refuses_sides_of_different_lengths():
    with pytest.raises(DataError, match="same number of sentences, at least one, got 1 and 2"):
        Corpus.from_lines(TOKENIZER, (["ab"], ["ab", "cd"]))
