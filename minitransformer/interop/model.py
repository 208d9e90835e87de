"""The result of an import: a checkpoint, with the special tokens where ours are."""

from dataclasses import replace
from typing import Any

import numpy as np

from minitransformer.checkpoints import Checkpoint
from minitransformer.config import Config
from minitransformer.errors import ConfigError, DataError
from minitransformer.interop.layers import Arrays
from minitransformer.models import ImportedConfig, build_model
from minitransformer.text import Tokenizer

NEVER = -1e4
"""Logit of a token that a model cannot generate: low enough, and harmless to the loss in training."""


def imported_config(where: str, **settings: Any) -> ImportedConfig:
    """[model] with these settings, which come from ``where``, a file; DataError, with its name, if they do not fit."""
    try:
        return ImportedConfig(kind="imported", attention_bias=True, **settings)
    except ConfigError as error:
        raise DataError(f"{where}: {error}") from error


def marian_config(where: str, **settings: Any) -> ImportedConfig:
    """[model] of a Marian model; DataError also if d_model is odd: it has more sines than cosines."""
    config = imported_config(where, output_bias=True, **settings)
    if config.d_model % 2:
        raise DataError(f"{where}: model.d_model must be even, got {config.d_model}")
    return config


def with_special_rows(ours: Arrays, rows: tuple[int | None, ...]) -> Arrays:
    """The tables with the rows of PAD, BOS, EOS and UNK first, then the others in their order.

    rows: where the model has PAD, BOS, EOS and UNK; None: nowhere, so its vector is zero and it is never generated. A
        row that is listed twice is generated as the first of the two.
    """
    arrays, kept = dict(ours), [row for row in rows if row is not None]
    for name in ("embedding", "tgt_embedding.table", "projection"):
        if name in arrays:
            table = arrays[name]
            first = [np.zeros_like(table[0]) if row is None else table[row] for row in rows]
            arrays[name] = np.concatenate([first, np.delete(table, kept, axis=0)])
    bias = arrays["output_bias"]
    first = [NEVER if row is None or row in rows[:place] else bias[row] for place, row in enumerate(rows)]
    arrays["output_bias"] = np.concatenate([first, np.delete(bias, kept)])
    return arrays


def checkpoint_of(arrays: Arrays, config: ImportedConfig, tokenizer: Tokenizer | None) -> Checkpoint:
    """The checkpoint of a model with these parameters, as training would write it, without Adam's state."""
    tables = {"embedding": arrays["embedding"], "projection": arrays.get("projection", arrays["embedding"])}
    sizes = {name: len(table) for name, table in tables.items()}
    if sizes["embedding"] != sizes["projection"] or (tokenizer and tokenizer.src_vocab_size):
        config = replace(config, src_vocab_size=sizes["embedding"])
    model = build_model(replace(config, vocab_size=sizes["projection"]))
    for name in model.parameters.names:
        model.parameters[name].data[...] = arrays[name]
    return Checkpoint(
        update=0,
        config=Config(model=model.config),
        table=model.parameters.table,
        parameters=model.parameters.data,
        tokenizer_text=tokenizer.dumps() if tokenizer else "",
    )
