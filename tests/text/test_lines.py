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
USES = {
    "Tokenizer.train": lambda lines: Tokenizer.train(lines, 300),
    "encode_lines": TOKENIZER.encode_lines,
    "from_lines, source": lambda lines: Corpus.from_lines(TOKENIZER, (lines, ["cd"])),
    "from_lines, target": lambda lines: Corpus.from_lines(TOKENIZER, (["ab"], lines)),
    "from_lines, validation": lambda lines: Corpus.from_lines(TOKENIZER, (["ab"], ["cd"]), (lines, lines)),
    "translate_lines": lambda lines: translate_lines(
        build_model(small_config()), TOKENIZER, lines, TranslationConfig()
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("wrong", ["ab cd", b"ab cd", None, 5, [None], ["ab", 5], [b"ab"]], ids=repr)
def test_lines_are_a_list_of_strings(use, wrong):
    remedy = r"one, b?'ab cd'; write \[line\]" if isinstance(wrong, str | bytes) else ""
    with pytest.raises(DataError, match=f"lines must be a list of strings, got {remedy}"):
        USES[use](wrong)


def test_from_lines_refuses_sides_of_different_lengths():
    with pytest.raises(DataError, match="same number of sentences, at least one, got 1 and 2"):
        Corpus.from_lines(TOKENIZER, (["ab"], ["ab", "cd"]))
