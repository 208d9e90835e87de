"""PyTorch's ``nn.Transformer``: its state dict as ``.safetensors`` or ``.npz``, with the embeddings around it.

The tables are ``src_embedding.weight``, ``tgt_embedding.weight`` and ``projection.weight``, or ``embedding.weight``
alone where they are one matrix; ``projection.bias`` is read too. Embeddings are multiplied by sqrt(d_model) and have
the paper's sinusoids added, as in the tutorials that build a translator around this module.
"""

from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.checkpoints import Checkpoint
from minitransformer.errors import DataError
from minitransformer.interop.layers import rename, take, to_common, to_ours, transpose_layers
from minitransformer.interop.marian import read_arrays
from minitransformer.interop.model import checkpoint_of, imported_config
from minitransformer.interop.safetensors import read_safetensors, write_safetensors
from minitransformer.text import Tokenizer

ATTENTIONS = {"self": "self_attn", "cross": "multihead_attn"}
TABLES = {
    "embedding": "src_embedding.weight",
    "tgt_embedding": "tgt_embedding.weight",
    "projection": "projection.weight",
}


def their_name(name: str) -> str:
    """The name in the state dict for a common name; q, k and v, which are one tensor there, are parts of it."""
    if name in TABLES:
        return TABLES[name]
    if name == "output_bias":
        return "projection.bias"
    if name.count(".") == 2:  # encoder.norm.weight
        return name
    side, layer, block, part, leaf = name.split(".")
    at = f"{side}.layers.{layer}."
    if block == "ffn" and part != "norm":
        return f"{at}linear{part}.{leaf}"
    if part == "norm":
        number = {"self": 1, "cross": 2, "ffn": 2 if side == "encoder" else 3}[block]
        return f"{at}norm{number}.{leaf}"
    projection = "out_proj." if part == "o" else f"in_proj_{part}_"
    return f"{at}{ATTENTIONS[block]}.{projection}{leaf}"


def read_state_dict(path: Path, tokenizer: Tokenizer | None = None, **options: Any) -> Checkpoint:
    """The model of a state dict.

    options: what its tensors do not say: ``n_heads``, ``norm``, ``activation`` of [model]

    Raises:
        DataError: a tensor is missing, has another shape, or has no use, or an option does not fit, such as a number of
            heads that does not divide d_model.
    """
    tensors = read_safetensors(path) if path.suffix == ".safetensors" else read_arrays(path)
    tensors = rename(tensors, _common_form, str(path))
    for name in [name for name in tensors if name.endswith(("in_proj_weight", "in_proj_bias"))]:
        leaf = name.rpartition("_")[2]
        if tensors[name].ndim not in (1, 2) or len(tensors[name]) % 3:
            raise DataError(f"{path}: {name} must have three parts of equal length, got {tensors[name].shape}")
        for part, array in zip("qkv", np.split(tensors.pop(name), 3), strict=True):
            tensors[f"{name.removesuffix(leaf)}{part}_{leaf}"] = array
    n_layers = [
        sum(f"{side}.layers.{i}.norm1.weight" in tensors for i in range(1000)) for side in ("encoder", "decoder")
    ]
    first = tensors.get("encoder.layers.0.linear1.weight", np.zeros(0))
    if first.ndim != 2 or len(set(n_layers)) != 1:
        raise DataError(f"{path}: must be the state dict of an nn.Transformer of as many encoder as decoder layers")
    config = imported_config(
        str(path),
        n_layers=n_layers[0],
        d_model=first.shape[1],
        d_ff=first.shape[0],
        tie_embeddings="projection.weight" not in tensors,
        final_norm="encoder.norm.weight" in tensors,
        output_bias="projection.bias" in tensors,
        norm_eps=1e-5,
        **options,
    )
    arrays = to_ours(take(transpose_layers(tensors), config, their_name, str(path)), config)
    return checkpoint_of(arrays, config, tokenizer)


def _common_form(name: str) -> str:
    """The name without that of a module around the Transformer; for a table of both sides, the source's name."""
    name = name.removeprefix("transformer.")
    return TABLES["embedding"] if name == "embedding.weight" else name


def write_state_dict(checkpoint: Checkpoint, path: Path) -> str:
    """Write a model as `read_state_dict` reads it; returns one line that says how to build the module.

    Raises:
        DataError: ``nn.Transformer`` has no such model: another kind, d_k of its own, learned positions.
    """
    model, _ = checkpoint.build()
    config = model.config
    activation = getattr(config, "activation", "relu")
    if config.kind not in ("transformer", "imported") or activation not in ("relu", "gelu"):
        raise DataError(
            f"export: nn.Transformer must have encoder, decoder and relu or gelu, got {config.kind} and {activation}"
        )
    if config.n_heads * config.d_k != config.d_model or config.d_v != config.d_k or config.positions != "sinusoidal":
        raise DataError("export: nn.Transformer must have d_k = d_v = d_model / n_heads and sinusoids, got others")
    names = {"embedding": "embedding.weight"} if config.tie_embeddings else {}
    arrays = transpose_layers({names.get(name) or their_name(name): each for name, each in to_common(model).items()})
    for name in [name for name in arrays if "in_proj_q_" in name]:
        parts = [arrays.pop(name.replace("_q_", f"_{part}_")) for part in "qkv"]
        arrays[name.replace("_q_", "_")] = np.concatenate(parts)
    write_safetensors(path, {name: np.ascontiguousarray(array) for name, array in arrays.items()})
    norms = "" if "encoder.norm.weight" in arrays else "; set encoder.norm and decoder.norm of the module to None"
    return (
        f"nn.Transformer({config.d_model}, {config.n_heads}, {config.n_layers}, {config.n_layers}, {config.d_ff}, "
        f"activation={activation!r}, layer_norm_eps={getattr(config, 'norm_eps', 1e-6):g}, "
        f"batch_first=True, norm_first={config.norm == 'pre'}){norms}"
    )
