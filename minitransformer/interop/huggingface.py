"""Hugging Face's MarianMT folders: ``config.json``, ``model.safetensors``, and the SentencePiece files beside them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.checkpoints import Checkpoint
from minitransformer.config import ModelConfig
from minitransformer.errors import DataError, quote
from minitransformer.files import ordinary_file, read_bounded, staging_folder, write_error, write_text
from minitransformer.interop.layers import Arrays, halves_to_pairs, rename, take, to_common, to_ours, transpose_layers
from minitransformer.interop.model import checkpoint_of, marian_config, with_special_rows
from minitransformer.interop.safetensors import read_safetensors, write_safetensors
from minitransformer.models import ImportedConfig
from minitransformer.text import PieceTokenizer
from minitransformer.text.corpus import MAX_TEXT

PARTS = {
    "self.q": "self_attn.q_proj",
    "self.k": "self_attn.k_proj",
    "self.v": "self_attn.v_proj",
    "self.o": "self_attn.out_proj",
    "self.norm": "self_attn_layer_norm",
    "cross.q": "encoder_attn.q_proj",
    "cross.k": "encoder_attn.k_proj",
    "cross.v": "encoder_attn.v_proj",
    "cross.o": "encoder_attn.out_proj",
    "cross.norm": "encoder_attn_layer_norm",
    "ffn.1": "fc1",
    "ffn.2": "fc2",
    "ffn.norm": "final_layer_norm",
}
UNTIED = {
    "embedding": "model.encoder.embed_tokens.weight",
    "tgt_embedding": "model.decoder.embed_tokens.weight",
    "projection": "lm_head.weight",
}
SIZE_NAMES = {"layers": "n_layers", "attention_heads": "n_heads", "ffn_dim": "d_ff"}
"""Sizes of each stack, and what they are called here."""
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}
REQUIRED = {"model_type": "marian", "scale_embedding": True, "is_encoder_decoder": True}
"""What config.json must say: without the factor sqrt(d_model) on embeddings, for example, it is another model."""


def their_name(name: str) -> str:
    """The name in a MarianMT file for a common name."""
    if name in UNTIED:
        return UNTIED[name]
    if name == "output_bias":
        return "final_logits_bias"
    side, layer, block, part, leaf = name.split(".")
    return f"model.{side}.layers.{layer}.{PARTS[f'{block}.{part}']}.{leaf}"


def read_folder(folder: Path) -> Checkpoint:
    """The model of a MarianMT folder, and its vocabulary if the folder has one.

    Raises:
        DataError: a file is missing, damaged, or of a model with parts that are not understood.
    """
    facts = _json(folder / "config.json")
    if not (folder / "model.safetensors").is_file():
        raise DataError(
            f"{folder}: must have model.safetensors, got none; pytorch_model.bin is a pickle, which runs code: take "
            "the .npz that Marian itself wrote, or save_pretrained(FOLDER, safe_serialization=True) in transformers"
        )
    config, where = _config(facts, str(folder / "config.json")), str(folder / "model.safetensors")
    common = take(_tensors(folder, config), config, their_name, where)
    ours = to_ours(common, config, halves_to_pairs(config.d_model))
    pad, eos, start, unk = (facts.get(f"{name}_token_id") for name in ("pad", "eos", "decoder_start", "unk"))
    rows = (pad, start, eos, 1 if unk is None else unk)
    n_src, n_tgt = len(ours["embedding"]), len(ours["output_bias"])
    if not all(type(row) is int and 0 <= row < min(n_src, n_tgt) for row in rows):
        raise DataError(f"{where}: the special ids must fit the {min(n_src, n_tgt)} tokens, got {quote(rows)}")
    tokenizer = _tokenizer(folder, rows, n_src, n_tgt)
    return checkpoint_of(with_special_rows(ours, rows), config, tokenizer)


def _tensors(folder: Path, config: ImportedConfig) -> Arrays:
    """The tensors of a folder, matrices of layers as (in, out), each table under the name of an untied one."""
    tensors = transpose_layers(read_safetensors(folder / "model.safetensors"))
    if config.tie_embeddings:
        shared = {"model.shared.weight": UNTIED["embedding"]}
        tensors = rename(tensors, lambda name: shared.get(name, name), str(folder))
    elif "lm_head.weight" not in tensors and UNTIED["tgt_embedding"] in tensors:
        tensors["lm_head.weight"] = tensors[UNTIED["tgt_embedding"]]
    for side in ("encoder", "decoder"):  # sinusoids, which old files hold; learned ones are another kind of model
        tensors.pop(f"model.{side}.embed_positions.weight", None)
    return {name: array.reshape(-1) if name == "final_logits_bias" else array for name, array in tensors.items()}


def _config(facts: Mapping[str, Any], where: str) -> ImportedConfig:
    for key, wanted in REQUIRED.items():
        if facts.get(key) != wanted:
            raise DataError(f"{where}: {key} must be {wanted!r}, got {quote(facts.get(key))}; another kind of model")
    if facts.get("normalize_before") or facts.get("activation_function") not in list(ACTIVATIONS):
        got = f"{quote(facts.get('normalize_before'))} and {quote(facts.get('activation_function'))}"
        raise DataError(f"{where}: normalize_before and activation_function must be false and known, got {got}")
    sizes = {"d_model": facts.get("d_model")}
    for key, name in SIZE_NAMES.items():
        first, second = (facts.get(f"{side}_{key}") for side in ("encoder", "decoder"))
        if first != second:
            got = f"{quote(first)} and {quote(second)}"
            raise DataError(f"{where}: encoder_{key} and decoder_{key} must be one number, got {got}")
        sizes[name] = first
    is_tied = facts.get("share_encoder_decoder_embeddings", True)
    activation = ACTIVATIONS[facts["activation_function"]]
    return marian_config(where, **sizes, tie_embeddings=is_tied, activation=activation, norm_eps=1e-5)


def _tokenizer(folder: Path, rows: tuple[int, ...], n_src: int, n_tgt: int) -> PieceTokenizer | None:
    """The vocabulary of the folder's files; None if there are none."""
    files = [folder / "source.spm", folder / "target.spm", folder / "vocab.json"]
    if not all(file.is_file() for file in files):
        return None
    vocabularies = [_json(folder / "vocab.json")] * 2
    if (folder / "target_vocab.json").is_file():
        vocabularies[1] = _json(folder / "target_vocab.json")
    sizes = zip(vocabularies, (n_src, n_tgt), strict=True)
    pieces = [pieces_in_order(vocabulary, size, rows, str(folder)) for vocabulary, size in sizes]
    return PieceTokenizer([read_bounded(file, MAX_TEXT) for file in files[:2]], pieces, where=str(folder))


def pieces_in_order(vocabulary: Mapping[str, Any], size: int, rows: tuple[int | None, ...], where: str) -> list[str]:
    """The pieces of ids 0 to size - 1 except the special rows; one that the vocabulary lacks becomes ``<number>``.

    Raises:
        DataError: an id occurs twice or is beyond the table, or a piece is not text.
    """
    by_id = {number: piece for piece, number in vocabulary.items() if type(number) is int and _is_text(piece)}
    if len(vocabulary) != len(by_id) or not by_id.keys() <= set(range(size)):
        raise DataError(f"{where}: its vocabulary must have ids from 0 to {size - 1}, each for one piece, got others")
    return [by_id.get(number, f"<{number}>") for number in range(size) if number not in rows]


def _is_text(piece: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in piece)


def _json(path: Path) -> dict:
    try:
        facts = json.loads(read_bounded(path, MAX_TEXT))
        if not isinstance(facts, dict):
            raise ValueError("no table")
        return facts
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: must be a table in JSON, got {quote(str(error))}") from error


def write_folder(checkpoint: Checkpoint, folder: Path) -> str:
    """Write the weights under MarianMT's names and a config.json, into an existing folder or a new one, which is made
    whole or not at all; returns one line about what differs there.

    Raises:
        DataError: MarianMT has no such model: pre-norm, learned positions, final norms, d_k of its own; or the folder
            cannot be written.
    """
    model, _ = checkpoint.build()
    config = model.config
    facts = _their_config(config)
    common = to_common(model, halves_to_pairs(config.d_model))
    common["output_bias"] = common.get("output_bias", np.zeros(config.vocab_size, np.float32))[None]
    names = {"embedding": "model.shared.weight"} if config.tie_embeddings else {}
    arrays = transpose_layers({names.get(name) or their_name(name): array for name, array in common.items()})
    try:
        # Files for an existing folder are made in it: the one around it may be read-only, or on another disk.
        with staging_folder(folder / "model" if folder.is_dir() else folder) as staging:
            write_safetensors(staging / "model.safetensors", arrays)
            write_text(staging / "config.json", json.dumps(facts, indent=1) + "\n")
            if folder.is_dir():
                for file in staging.iterdir():
                    ordinary_file(folder / file.name)  # before the first is replaced
                for file in staging.iterdir():
                    file.replace(folder / file.name)
            else:
                staging.rename(folder)
    except OSError as error:
        raise DataError(f"export: {folder} {write_error(error)}") from error
    eps = getattr(config, "norm_eps", 1e-6)
    if eps == 1e-5:
        return ""
    return f"layer norm's epsilon is 1e-5 there and {eps:g} here: outputs differ in the fifth digit"


def _their_config(config: ModelConfig) -> dict[str, Any]:
    """The contents of config.json for our special ids; DataError if MarianMT has no such model."""
    activation = getattr(config, "activation", "relu")
    for key, wanted in (("norm", "post"), ("positions", "sinusoidal"), ("final_norm", False), ("src_vocab_size", 0)):
        if getattr(config, key, wanted) != wanted:
            raise DataError(f"export: MarianMT must have model.{key} = {wanted!r}, got {getattr(config, key)!r}")
    if config.kind not in ("transformer", "imported") or activation not in ACTIVATIONS:
        raise DataError(f"export: MarianMT must have a known kind and activation, got {config.kind} and {activation}")
    if not config.d_k == config.d_v == config.d_model / config.n_heads or config.d_model % 2:
        raise DataError("export: MarianMT must have d_k = d_v = d_model / n_heads and an even d_model, got others")
    return REQUIRED | {
        "architectures": ["MarianMTModel"],
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "d_model": config.d_model,
        **{
            f"{side}_{key}": getattr(config, name)
            for side in ("encoder", "decoder")
            for key, name in SIZE_NAMES.items()
        },
        "activation_function": activation,
        "normalize_before": False,
        "share_encoder_decoder_embeddings": config.tie_embeddings,
        "tie_word_embeddings": config.tie_embeddings,
        "max_position_embeddings": 1024,
        **{"pad_token_id": 0, "decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2, "unk_token_id": 3},
        "forced_eos_token_id": None,
        "dropout": config.p_drop,
    }
