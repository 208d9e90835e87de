"""The blocks of a model, in the order of Figure 1, with the parameters that its modules really have."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError, quote

Shapes = Mapping[str, tuple[int, ...]]
"""The shape of each parameter by its name, as of ``Model.parameter_shapes``."""


class Block(NamedTuple):
    """A box of the picture.

    role: which decides its color, a key of `architecture_diagram.COLORS`
    note: what it does beyond its title, or whose parameters it shares
    parameters: shapes of its own parameters, by their names in the model
    bypassed: number of blocks below it that a residual connection into this block leads around
    reads_encoder: whether the encoder's output comes in from the side
    """

    title: str
    role: str
    note: str = ""
    parameters: Shapes = {}
    bypassed: int = 0
    reads_encoder: bool = False


class Layers(NamedTuple):
    """``count`` layers that have the same blocks; the names of the parameters are those of the first one."""

    count: int
    blocks: list[Block]


class Column(NamedTuple):
    """Blocks and layers on top of each other, from bottom to top, and what goes in and comes out."""

    source: str
    parts: list[Block | Layers]
    result: str


def columns_of(config: ModelConfig, shapes: Shapes) -> list[Column]:
    """The columns of the picture, the encoder before the decoder; every parameter is in one block.

    Raises:
        ConfigError: the model is of a kind that cannot be drawn.
    """
    if config.kind not in COLUMNS:
        raise ConfigError(f"model.kind must be {', '.join(COLUMNS)}, got {quote(config.kind, 60)}")
    return COLUMNS[config.kind](config, shapes)


def _own(shapes: Shapes, path: str) -> Shapes:
    """The parameters at or below ``path``."""
    return {name: shape for name, shape in shapes.items() if f"{name}.".startswith(f"{path}.")}


def _transformer(config: ModelConfig, shapes: Shapes) -> list[Column]:
    d = config.d_model
    encoder = [
        *_embedding(config, shapes, "Input Embedding", "embedding", "src_embedding.learned", "S"),
        *_stack(config, shapes, "encoder", ["self_attention", "feed_forward"]),
    ]
    decoder = [
        *_embedding(config, shapes, "Output Embedding", "tgt_embedding.table", "tgt_embedding.learned", "T"),
        *_stack(config, shapes, "decoder", ["masked self_attention", "cross_attention", "feed_forward"]),
        *_output(config, shapes),
    ]
    return [
        Column("inputs (B, S)", encoder, f"(B, S, {d})"),
        Column("outputs, shifted right (B, T)", decoder, f"output probabilities (B, T, {config.vocab_size})"),
    ]


def _language_model(config: ModelConfig, shapes: Shapes) -> list[Column]:
    parts = [
        *_embedding(config, shapes, "Embedding", "embedding", "embed.learned", "T"),
        *_stack(config, shapes, "layers", ["masked self_attention", "feed_forward"]),
        *_output(config, shapes),
    ]
    return [Column("tokens, shifted right (B, T)", parts, f"probabilities (B, T, {config.vocab_size})")]


COLUMNS = {"transformer": _transformer, "language_model": _language_model}


SHARED = "the same matrix as the input embedding"


def _embedding(config: ModelConfig, shapes: Shapes, title: str, table: str, learned: str, length: str) -> list[Block]:
    own, positions = _own(shapes, table), _own(shapes, learned)
    kind = "learned" if positions else f"sinusoids ({length}, {config.d_model})"
    return [
        Block(title, "embedding", f"times sqrt({config.d_model})" + ("" if own else f"; {SHARED}"), own),
        Block("Positional Encoding", "position", f"added; {kind}", positions),
    ]


def _output(config: ModelConfig, shapes: Shapes) -> list[Block]:
    own = _own(shapes, "projection")
    note = ("" if own else f"{SHARED}, ") + f"transposed ({config.d_model}, {config.vocab_size})"
    return [Block("Linear", "output", note, own), Block("Softmax", "softmax")]


def _stack(config: ModelConfig, shapes: Shapes, path: str, sublayers: Sequence[str]) -> list[Block | Layers]:
    """N layers, and the norm after them if there is one."""
    first, found = _own(shapes, f"{path}.layers.0"), []
    if first:
        blocks = [block for name in sublayers for block in _sublayer(config, first, f"{path}.layers.0", name)]
        found.append(Layers(config.n_layers, blocks))
    if norm := _own(shapes, f"{path}.final_norm"):
        found.append(Block("Norm", "norm", "", norm))
    return found


def _sublayer(config: ModelConfig, shapes: Shapes, path: str, name: str) -> list[Block]:
    """A sub-layer, its norm and its residual connection, in the order of ``model.norm``."""
    masked, name = name.startswith("masked "), name.removeprefix("masked ")
    own = _own(shapes, f"{path}.{name}")
    if name == "feed_forward":
        block = Block("Feed Forward", "feed_forward", f"max(0, x w1 + b1) w2 + b2, d_ff = {config.d_ff}", own)
    else:
        note = f"h = {config.n_heads}, d_k = {config.d_k}, d_v = {config.d_v}"
        title = "Masked Multi-Head Attention" if masked else "Multi-Head Attention"
        block = Block(title, "attention", note, own, reads_encoder=name == "cross_attention")
    norm = _own(shapes, f"{path}.{name}_residual.norm")
    if config.norm == "post":
        return [block, Block("Add & Norm", "norm", "", norm, bypassed=1)]
    return [Block("Norm", "norm", "", norm), block, Block("Add", "norm", bypassed=2)]
