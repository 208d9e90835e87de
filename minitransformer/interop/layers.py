"""The parameters of a Transformer by common names, between those of other projects and ours.

Common names are ``encoder.0.self.q.weight``: side, layer, block (self, cross or ffn), part (q, k, v, o; 1, 2; norm),
weight or bias; matrices are (in, out). Then ``encoder.norm``, ``embedding``, ``tgt_embedding``, ``projection`` and
``output_bias``. What another project calls them is a table in its own module.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from minitransformer.errors import DataError, quote
from minitransformer.models import ImportedConfig

Arrays = dict[str, np.ndarray]
TABLES = {"embedding": "embedding", "tgt_embedding": "tgt_embedding.table", "projection": "projection"}
"""Our names of what has a row for each token."""
BLOCKS = {"encoder": ("self", "ffn"), "decoder": ("self", "cross", "ffn")}
OURS = {"self": "self_attention", "cross": "cross_attention", "ffn": "feed_forward"}


def common_names(config: ImportedConfig) -> Iterator[str]:
    """The common name of every parameter of a model."""
    for side, blocks in BLOCKS.items():
        for layer in range(config.n_layers):
            for block in blocks:
                for part in ("1", "2", "norm") if block == "ffn" else ("q", "k", "v", "o", "norm"):
                    yield f"{side}.{layer}.{block}.{part}.weight"
                    if config.attention_bias or part not in "qkvo":
                        yield f"{side}.{layer}.{block}.{part}.bias"
        if config.norm == "pre" or config.final_norm:
            yield from (f"{side}.norm.weight", f"{side}.norm.bias")
    yield "embedding"
    if not config.tie_embeddings:
        yield from ("tgt_embedding", "projection")
    if config.output_bias:
        yield "output_bias"


def take(
    tensors: Mapping[str, np.ndarray], config: ImportedConfig, their_name: Callable[[str], str], where: str
) -> Arrays:
    """The tensors of a file by their common names; matrices of embeddings are (V, d_model).

    their_name: the name in the file of a common name

    Raises:
        DataError: one is missing, has another shape than the config says, or is of no use.
    """
    sizes = {"d": config.d_model, "f": config.d_ff, "k": config.n_heads * config.d_k, "v": config.n_heads * config.d_v}
    found, left = {}, dict(tensors)
    for name in common_names(config):
        theirs = their_name(name)
        if theirs not in left:
            raise DataError(f"{where}: the tensor {theirs} must be there, got none; the model is of another kind")
        array = left.pop(theirs)
        shape = tuple(sizes[letter] for letter in _letters(name))
        if not shape:  # a row, or a number, for each token
            shape = (*array.shape[:1], *(() if name == "output_bias" else (config.d_model,)))
        if array.shape != shape or not shape:
            raise DataError(f"{where}: {theirs} must have the shape {shape or ('V',)}, got {array.shape}")
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


def _letters(name: str) -> str:
    """The axes of a parameter, or "" for those with a row for each token."""
    part, leaf = name.split(".")[-2:] if "." in name else ("", "")
    if not part:
        return ""
    if leaf == "weight" and part != "norm":
        return {"q": "dk", "k": "dk", "v": "dv", "o": "vd", "1": "df", "2": "fd"}[part]
    return {"q": "k", "k": "k", "v": "v", "1": "f"}.get(part, "d")


def to_ours(common: Arrays, config: ImportedConfig, order: np.ndarray | None = None) -> Arrays:
    """Our parameters by name: keys and values side by side, and the axis of the residual stream in another order.

    order: place in their vectors of each of our d_model values; None: the same
    """
    order = np.arange(config.d_model) if order is None else order
    ours = {}
    for side, blocks in BLOCKS.items():
        for layer in range(config.n_layers):
            for block in blocks:
                at, to = f"{side}.{layer}.{block}", f"{side}.layers.{layer}.{OURS[block]}"
                _copy_norm(common, f"{at}.norm", ours, f"{to}_residual.norm", order)
                if block == "ffn":
                    ours |= {f"{to}.w1": common[f"{at}.1.weight"][order], f"{to}.b1": common[f"{at}.1.bias"]}
                    ours |= {f"{to}.w2": common[f"{at}.2.weight"][:, order], f"{to}.b2": common[f"{at}.2.bias"][order]}
                    continue
                for leaf in ("weight", "bias") if config.attention_bias else ("weight",):
                    q, k, v, o = (common[f"{at}.{part}.{leaf}"] for part in "qkvo")
                    if leaf == "weight":
                        q, k, v, o = q[order], k[order], v[order], o[:, order]
                    else:
                        o = o[order]
                    ours[f"{to}.w_q.{leaf}"], ours[f"{to}.w_kv.{leaf}"] = q, np.concatenate([k, v], axis=-1)
                    ours[f"{to}.w_o.{leaf}"] = o
        if f"{side}.norm.weight" in common:
            _copy_norm(common, f"{side}.norm", ours, f"{side}.final_norm", order)
    ours |= {name: common[theirs][:, order] for theirs, name in TABLES.items() if theirs in common}
    return ours | {name: common[name] for name in ("output_bias",) if name in common}


def _copy_norm(common: Arrays, at: str, ours: Arrays, to: str, order: np.ndarray) -> None:
    ours[f"{to}.gamma"], ours[f"{to}.beta"] = common[f"{at}.weight"][order], common[f"{at}.bias"][order]


def to_common(ours: Mapping[str, np.ndarray], config: ImportedConfig, order: np.ndarray | None = None) -> Arrays:
    """The inverse of `to_ours`; a model without biases of attention gets zeros."""
    back = np.argsort(np.arange(config.d_model) if order is None else order)
    n_keys, common = config.n_heads * config.d_k, {}
    for side, blocks in BLOCKS.items():
        for layer in range(config.n_layers):
            for block in blocks:
                at, to = f"{side}.layers.{layer}.{OURS[block]}", f"{side}.{layer}.{block}"
                norm = f"{at}_residual.norm"
                common |= {
                    f"{to}.norm.weight": ours[f"{norm}.gamma"][back],
                    f"{to}.norm.bias": ours[f"{norm}.beta"][back],
                }
                if block == "ffn":
                    common |= {f"{to}.1.weight": ours[f"{at}.w1"][back], f"{to}.1.bias": ours[f"{at}.b1"]}
                    common |= {f"{to}.2.weight": ours[f"{at}.w2"][:, back], f"{to}.2.bias": ours[f"{at}.b2"][back]}
                    continue
                for leaf, axis in (("weight", back), ("bias", slice(None))):
                    q, kv, o = (_or_zeros(ours, f"{at}.{part}.{leaf}", config) for part in ("w_q", "w_kv", "w_o"))
                    k, v = kv[..., :n_keys], kv[..., n_keys:]
                    for part, array in zip("qkv", (q, k, v), strict=True):
                        common[f"{to}.{part}.{leaf}"] = array[axis]
                    common[f"{to}.o.{leaf}"] = o[..., back]
        if f"{side}.final_norm.gamma" in ours:
            norm = f"{side}.final_norm"
            common |= {
                f"{side}.norm.weight": ours[f"{norm}.gamma"][back],
                f"{side}.norm.bias": ours[f"{norm}.beta"][back],
            }
    return common | {theirs: ours[name][:, back] for theirs, name in TABLES.items() if name in ours}


def _or_zeros(ours: Mapping[str, np.ndarray], name: str, config: ImportedConfig) -> np.ndarray:
    if name in ours:
        return ours[name]
    return np.zeros(ours[name.replace("bias", "weight")].shape[1], config.dtype)


def halves_to_pairs(d_model: int) -> np.ndarray:
    """Where [all sines | all cosines] have our alternating sines and cosines: 0, d/2, 1, d/2 + 1, ...

    d_model: even

    Their positions are added to the embedding, so all that reads or writes the residual stream follows.
    """
    return np.arange(d_model).reshape(2, -1).T.ravel()
