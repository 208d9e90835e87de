"""Our Transformer's weights in two peers that translate: Hugging Face's Marian model and CTranslate2.

Both are the post-norm model of the paper with sinusoids and one shared embedding. Marian has biases in its attention:
they are zero here. Its positions have all sines first and then all cosines, and our export orders the weights to match.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from transformers import GenerationConfig, MarianMTModel

from minitransformer.backend import to_numpy
from minitransformer.checkpoints import Checkpoint
from minitransformer.config import BOS, PAD, Config
from minitransformer.interop.huggingface import write_folder
from minitransformer.models import Transformer

if TYPE_CHECKING:
    import ctranslate2

NORM_EPS = 1e-6


def marian_model(model: Transformer) -> MarianMTModel:
    """Marian with the weights of ``model``, ready to generate as many tokens as asked for, never ending early.

    Raises:
        DataError: Marian has no such model.
    """
    parameters = model.parameters
    with TemporaryDirectory() as folder:
        config = Config(model=model.config)
        write_folder(Checkpoint(0, config, parameters.table, to_numpy(parameters.data)), Path(folder))
        marian = MarianMTModel.from_pretrained(folder).float().eval()
    marian.generation_config = GenerationConfig(
        pad_token_id=PAD, eos_token_id=None, decoder_start_token_id=BOS, use_cache=True
    )
    for module in marian.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = NORM_EPS
    return marian


def ctranslate2_translator(marian: MarianMTModel, folder: Path, threads: int) -> "ctranslate2.Translator":
    """CTranslate2 in float32 with the weights of ``marian``, its model in ``folder``; words are the ids as text."""
    import ctranslate2  # here: Marian alone needs none
    from ctranslate2.converters.transformers import BartLoader

    marian.config.normalize_before = marian.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(marian)
    words = [str(number) for number in range(marian.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    # CTranslate2 wants to know the end: it gets a word that is never the best.
    spec.config.bos_token = spec.config.decoder_start_token = words[BOS]
    spec.config.eos_token = spec.config.unk_token = words[PAD]
    spec.config.layer_norm_epsilon = NORM_EPS
    spec.validate()
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=threads)
