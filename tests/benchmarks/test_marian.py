"""Translation beside Hugging Face Marian and CTranslate2 with the same weights: the same tokens."""

from pathlib import Path

import numpy as np
import pytest
from extras import need
from small_models import random_batch, small_model

from minitransformer.checkpoints import load_model
from minitransformer.config import EOS, PAD, ModelConfig
from minitransformer.generation import greedy_search

CHECKPOINT = Path(__file__).parents[2] / "lessons" / "checkpoints" / "number_words.npz"

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def marian():
    """``benchmarks.peers.marian``; skipped where its peers are not installed."""
    need("torch", "transformers", "ctranslate2")
    from benchmarks.peers import marian

    return marian


def test_marian_with_our_weights_gives_our_logits(marian, rng, relative_error):
    import torch

    model, batch = small_model(rng, d_k=3, d_v=3), random_batch(rng, (5, 2, 4), (6, 3, 6))
    theirs = marian.marian_model(model)
    src, tgt_in = (torch.from_numpy(ids).long() for ids in (batch.src, batch.tgt_in))
    with torch.inference_mode():
        logits = theirs(input_ids=src, attention_mask=src != PAD, decoder_input_ids=tgt_in).logits.numpy()
    real = batch.tgt_out != PAD
    assert relative_error(logits[real], model(batch.src, batch.tgt_in).data[real]) < 1e-5  # float32


def test_a_trained_model_generates_the_same_tokens_in_all_three(marian, tmp_path):
    """Greedy search: the peers do not stop at EOS, so the tokens up to it are compared."""
    from benchmarks.decoding import Case, translate_ctranslate2, translate_marian

    model, tokenizer = load_model(CHECKPOINT)
    source = [*tokenizer.encode("forty-two thousand one hundred and seven"), EOS]
    src, case = np.array([source, source]), Case(sentences=2, new_tokens=20, beam_size=1)
    theirs = marian.marian_model(model)
    translator = marian.ctranslate2_translator(theirs, tmp_path, threads=1)
    ours = greedy_search(model, src)[0].ids
    assert 3 < len(ours) < 20
    for found in (translate_marian(theirs, src, case), translate_ctranslate2(translator, src, case)):
        for ids, _ in found:
            assert ids[: len(ours) + 1] == [*ours, EOS]


def test_beams_of_a_random_model_agree_to_the_token_or_in_their_score(marian, tmp_path):
    from benchmarks import decoding

    model = decoding.random_model(ModelConfig(vocab_size=300, n_layers=2, d_model=16, d_ff=32, n_heads=2))
    theirs = marian.marian_model(model)
    translator = marian.ctranslate2_translator(theirs, tmp_path, threads=1)
    case = decoding.Case(sentences=5, new_tokens=30, beam_size=4)
    runners = decoding.contestants(model, theirs, translator, case)
    for peer in ("marian", "ctranslate2"):
        counts = decoding.agreement(runners["ours"](), runners[peer]())
        assert counts["same"] + counts["ties"] == 5


def test_a_difference_is_a_tie_only_if_the_scores_say_so(marian):
    from benchmarks.decoding import agreement

    ours = [([1, 2], -1.0), ([3, 4], -2.0), ([5, 6], -3.0)]
    theirs = [([1, 2], -9.0), ([3, 5], -2.000001), ([5, 7], -3.1)]
    assert agreement(ours, theirs) == {"outputs": 3, "same": 1, "ties": 1}
