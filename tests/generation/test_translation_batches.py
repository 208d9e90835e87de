"""How lines are divided for translation: blocks that grow, batches that fit into memory."""

from itertools import repeat

import numpy as np
import pytest
from searches import ChainModel

from minitransformer.config import EOS, TranslationConfig
from minitransformer.generation import search_blocks, translate_lines
from minitransformer.text import Tokenizer

TOKENIZER = Tokenizer.train(["a cat"], 10, mode="words")


class EmptyOutputs(ChainModel):
    """A model that ends every output at once, and notes the shape of every batch of sources, (B, S)."""

    def __init__(self):
        super().__init__(np.eye(TOKENIZER.vocab_size)[[EOS] * TOKENIZER.vocab_size])
        self.batches = []

    def start(self, src_ids, max_length):
        self.batches.append(src_ids.shape)
        return super().start(src_ids, max_length)


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_blocks_grow_from_8_batches_to_64(length, capsys):
    """Each has twice as many as the one before, and ends with the line that fills its last batch. A beam of 2 reads
    each source twice."""
    batch_tokens, batches = 6, (8, 16, 32, 64, 64)
    sizes = [batch_tokens * each // (length + 1) for each in batches]  # EOS is a token
    config = TranslationConfig(beam_size=2, max_extra=0, batch_tokens=2 * batch_tokens)
    lines = repeat("a " * length, sum(sizes) + 1)
    assert [len(block) for block in search_blocks(EmptyOutputs(), TOKENIZER, lines, config)] == [*sizes, 1]
    assert capsys.readouterr().err == ""  # no progress bar unless one is asked for


def test_the_attention_scores_of_a_head_take_at_most_64_mib():
    """In float32: of 16 lines of 1,024 tokens, EOS among them. Shorter lines come after longer ones."""
    model, config = EmptyOutputs(), TranslationConfig(beam_size=1, batch_tokens=100_000)
    translate_lines(model, TOKENIZER, ["a", *["a " * 1023] * 33, "a"], config)
    assert model.batches == [(16, 1024), (16, 1024), (3, 1024)]
    assert 16 * 1024**2 * np.dtype(np.float32).itemsize == 64 << 20
