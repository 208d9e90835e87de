"""Models of other libraries with random parameters, tokenizer files that sentencepiece trains, what is exported."""

import io
import json
from pathlib import Path

import numpy as np
from extras import need

from minitransformer.checkpoints import Checkpoint
from minitransformer.config import Config

SENTENCES = [
    "the cat sleeps in the old house",
    "a dog and two cats sleep here",
    "the house of the dog is old",
    "eine Katze schläft im alten Haus",
    "ein Hund und zwei Katzen schlafen hier",
    "das Haus des Hundes ist alt",
] * 20


def checkpoint_with(model) -> Checkpoint:
    """The parameters of a model, as what exports are made from."""
    return Checkpoint(0, Config(model=model.config), model.parameters.table, model.parameters.data)


def unigram_model(lines: list[str], size: int, **options) -> bytes:
    """The bytes of a ``.spm`` that sentencepiece learns from the lines."""
    library = need("sentencepiece")
    written = io.BytesIO()
    options = {"model_type": "unigram", "vocab_size": size, "hard_vocab_limit": False, "minloglevel": 2} | options
    library.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=written, **options)
    return written.getvalue()


def marian_model(vocab_size: int, *, tgt_size: int = 0, **options):
    """A random MarianMT model in evaluation mode; with tgt_size the sides have vocabularies of their own."""
    torch, library = need("torch"), need("transformers")
    size = tgt_size or vocab_size
    shape = {"layers": 2, "attention_heads": 4, "ffn_dim": 24}
    config = library.MarianConfig(
        vocab_size=vocab_size,
        decoder_vocab_size=size,
        d_model=16,
        **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in shape.items()},
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        forced_eos_token_id=None,
        scale_embedding=True,
        share_encoder_decoder_embeddings=not tgt_size,
        init_std=0.5,
        **options,
    )
    torch.manual_seed(0)
    model = library.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn_like(parameter)
        model.final_logits_bias[...] = torch.randn_like(model.final_logits_bias)
        for table in (model.model.encoder.embed_tokens, model.model.decoder.embed_tokens):
            table.weight[config.pad_token_id] = 0
    return model


def shrink_norms(model) -> None:
    """Make what goes into the next layer norm so small that its epsilon counts."""
    with need("torch").no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter *= 0.02


def save_vocabulary(folder: Path, size: int) -> None:
    """source.spm, target.spm and vocab.json beside a model: </s> 0, <unk> 1, pieces of both, <pad> last."""
    models = [unigram_model(SENTENCES[side::6] * 3, 40) for side in (0, 3)]
    names = ("source.spm", "target.spm")
    for name, model in zip(names, models, strict=True):
        (folder / name).write_bytes(model)
    pieces = dict.fromkeys(["</s>", "<unk>"])
    for model in models:
        library = need("sentencepiece").SentencePieceProcessor(model_proto=model)
        pieces |= dict.fromkeys(map(library.id_to_piece, range(3, library.get_piece_size())))
    assert len(pieces) < size
    table = {piece: number for number, piece in enumerate(pieces)} | {"<pad>": size - 1}
    (folder / "vocab.json").write_text(json.dumps(table), encoding="utf-8")


def logits_of(model, src: np.ndarray, tgt: np.ndarray) -> np.ndarray:
    torch = need("torch")
    with torch.no_grad():
        return model(input_ids=torch.tensor(src), decoder_input_ids=torch.tensor(tgt)).logits.numpy()
