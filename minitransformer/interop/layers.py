"""The parameters of a Transformer under common names, which link other projects' names to ours.

Common names are ``encoder.0.self.q.weight``: side, layer, block (self, cross or ffn), part (q, k, v, o; 1, 2; norm),
weight or bias; matrices are (in, out). Then ``encoder.norm``, ``embedding``, ``tgt_embedding``, ``projection`` and
``output_bias``. What another project calls them is a table in its own module.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from minitransformer.config import ModelConfig
from minitransformer.errors import DataError, quote
from minitransformer.models import ImportedConfig, Model

Arrays = dict[str, np.ndarray]
NameMap = dict[str, tuple[str, str]]
"""Common name -> (our name, axes). Two with the same name of ours, keys and values, are stored side by side.

axes: a letter each, d: d_model, f: d_ff, k and v: d_k and d_v of all heads, V: tokens
"""
BLOCKS = {
    "encoder": {"self": "self_attention", "ffn": "feed_forward"},
    "decoder": {"self": "self_attention", "cross": "cross_attention", "ffn": "feed_forward"},
}
FEED_FORWARD = {"1.weight": ("w1", "df"), "1.bias": ("b1", "f"), "2.weight": ("w2", "fd"), "2.bias": ("b2", "d")}
ATTENTION = {"q": ("w_q", "dk"), "k": ("w_kv", "dk"), "v": ("w_kv", "dv"), "o": ("w_o", "vd")}


def name_map(config: ModelConfig) -> NameMap:
    """Our name and the axes of every parameter of a model."""
    found: NameMap = {}
    for side, blocks in BLOCKS.items():
        for layer in range(config.n_layers):
            for block, our_block in blocks.items():
                at, to = f"{side}.{layer}.{block}", f"{side}.layers.{layer}.{our_block}"
                if block == "ffn":
                    found |= {f"{at}.{name}": (f"{to}.{own}", axes) for name, (own, axes) in FEED_FORWARD.items()}
                else:
                    for part, (own, axes) in ATTENTION.items():
                        found[f"{at}.{part}.weight"] = f"{to}.{own}.weight", axes
                        if config.attention_bias:
                            found[f"{at}.{part}.bias"] = f"{to}.{own}.bias", axes[1]
                found |= _norm(f"{at}.norm", f"{to}_residual.norm")
        if config.norm == "pre" or getattr(config, "final_norm", False):
            found |= _norm(f"{side}.norm", f"{side}.final_norm")
    found["embedding"] = "embedding", "Vd"
    if not config.tie_embeddings:
        found |= {"tgt_embedding": ("tgt_embedding.table", "Vd"), "projection": ("projection", "Vd")}
    if getattr(config, "output_bias", False):
        found["output_bias"] = "output_bias", "V"
    return found


def _norm(at: str, to: str) -> NameMap:
    return {f"{at}.weight": (f"{to}.gamma", "d"), f"{at}.bias": (f"{to}.beta", "d")}


def rename(tensors: Mapping[str, np.ndarray], new_name: Callable[[str], str], where: str) -> Arrays:
    """The tensors of a file under other names; DataError if two with different values get the same one."""
    found: Arrays = {}
    for name, array in tensors.items():
        new = new_name(name)
        if new in found and not np.array_equal(found[new], array):
            raise DataError(f"{where}: must have one tensor for {new}, got {quote(name, 60)} and another")
        found[new] = array
    return found


def take(
    tensors: Mapping[str, np.ndarray], config: ImportedConfig, their_name: Callable[[str], str], where: str
) -> Arrays:
    """The tensors of a file by their common names; embedding matrices are (V, d_model).

    their_name: gives the name in the file for a common name

    Raises:
        DataError: one is missing, does not have the shape that the config implies, or has no use.
    """
    sizes = {"d": config.d_model, "f": config.d_ff, "k": config.n_heads * config.d_k, "v": config.n_heads * config.d_v}
    found, left = {}, dict(tensors)
    for name, (_, axes) in name_map(config).items():
        theirs = their_name(name)
        if theirs not in left:
            raise DataError(f"{where}: the tensor {theirs} must be there, got none; the model is of another kind")
        array = left.pop(theirs)
        if name in ("embedding", "tgt_embedding"):  # what follows has as many tokens
            sizes["V"] = len(array) if array.ndim and array.size else "V"
        shape = tuple(sizes[axis] for axis in axes)
        if array.shape != shape:
            raise DataError(f"{where}: {theirs} must have the shape {shape}, got {array.shape}")
        if array.dtype.kind != "f":
            raise DataError(f"{where}: {theirs} must hold floating-point numbers, got {array.dtype}")
        with np.errstate(over="ignore"):
            array = found[name] = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise DataError(f"{where}: {theirs} must be finite in float32, got NaN or infinity")
    if left:
        raise DataError(
            f"{where}: every tensor must have a place in the model, got {len(left)} without, such as "
            f"{quote(min(left), 60)}; the model has parts that are not understood"
        )
    return found


def to_ours(common: Arrays, config: ImportedConfig, order: np.ndarray | None = None) -> Arrays:
    """Our parameters by name, with the axis of the residual stream in another order.

    order: the place of each of our d_model values in their vectors; None: the same
    """
    order, parts = np.arange(config.d_model) if order is None else order, {}
    for name, (own, axes) in name_map(config).items():
        parts.setdefault(own, []).append(_reorder(common[name], axes, order))
    return {own: np.concatenate(arrays, axis=-1) for own, arrays in parts.items()}


def to_common(model: Model, order: np.ndarray | None = None) -> Arrays:
    """The inverse of `to_ours`; a model without attention biases gets zeros."""
    config, ours = model.config, {name: model.parameters[name].data for name in model.parameters.names}
    back = np.argsort(np.arange(config.d_model) if order is None else order)
    n_keys, common = config.n_heads * config.d_k, {}
    for name, (own, axes) in name_map(replace(config, attention_bias=True)).items():
        array = ours[own] if own in ours else np.zeros_like(ours[own.replace("bias", "weight")][0])
        if ".w_kv." in own:
            array = array[..., :n_keys] if axes[-1] == "k" else array[..., n_keys:]
        common[name] = _reorder(array, axes, back)
    return common


def _reorder(array: np.ndarray, axes: str, order: np.ndarray) -> np.ndarray:
    """The axis d in this order."""
    return array.take(order, axes.index("d")) if "d" in axes else array


def transpose_layers(tensors: Mapping[str, np.ndarray]) -> Arrays:
    """PyTorch's tensors with matrices of layers as (in, out) instead of (out, in), or back; tables stay as they are."""
    return {name: array.T if "layers." in name and array.ndim == 2 else array for name, array in tensors.items()}


def halves_to_pairs(d_model: int) -> np.ndarray:
    """Where [all sines | all cosines] have our alternating sines and cosines: 0, d/2, 1, d/2 + 1, ...

    d_model: even

    Their positions are added to the embedding, so everything that reads or writes the residual stream follows.
    """
    return np.arange(d_model).reshape(2, -1).T.ravel()
