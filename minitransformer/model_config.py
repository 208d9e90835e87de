"""The settings of [model] and the rows of Table 3. `config.py` has all sections, and re-exports ModelConfig."""

from dataclasses import dataclass

from minitransformer.errors import ConfigError, quote
from minitransformer.settings import Section, option


@dataclass(frozen=True)
class ModelConfig(Section):
    """The shape of the model  [sec. 3, sec. 5.4, Table 3]."""

    kind: str = option("transformer", "kind of model: transformer, language_model, recurrent, or a registered one")
    vocab_size: int = option(0, "V, tokens of the vocabulary (0: taken from the tokenizer)", low=0)
    n_layers: int = option(6, "N, layers of the encoder and of the decoder", low=0, high=1000)
    d_model: int = option(512, "width of the residual stream", low=1)
    d_ff: int = option(2048, "width inside the feed-forward layer", low=1)
    n_heads: int = option(8, "h, attention heads", low=1)
    d_k: int = option(0, "width of queries and keys per head (0: d_model / n_heads)", low=0)
    d_v: int = option(0, "width of values per head (0: d_model / n_heads)", low=0)
    p_drop: float = option(0.1, "dropout on sub-layer outputs and on embeddings, probability", low=0, high=0.999)
    p_drop_attention: float = option(0.0, "dropout on attention weights, probability", low=0, high=0.999)
    p_drop_ffn: float = option(0.0, "dropout inside the feed-forward layer, probability", low=0, high=0.999)
    label_smoothing: float = option(0.1, "eps_ls, probability mass spread over the vocabulary", low=0, high=0.999)
    norm: str = option("post", "layer norm after each sub-layer (the paper) or before it", choices=("post", "pre"))
    positions: str = option("sinusoidal", "position encoding", choices=("sinusoidal", "learned"))
    max_positions: int = option(512, "longest sentence with learned positions, tokens", low=1)
    tie_embeddings: bool = option(True, "one matrix for both embeddings and the output projection")
    src_vocab_size: int = option(0, "tokens of a separate source vocabulary (0: both sides share one)", low=0)
    attention_bias: bool = option(False, "biases on W^Q, W^K, W^V, W^O")
    attention: str = option(
        "dot",
        "how a recurrent decoder attends to the source; none: it sees only the encoder's last state",
        choices=("dot", "additive", "none"),
    )
    dtype: str = option("float32", "floating-point type of parameters", choices=("float32", "float64"))

    def __post_init__(self):
        super().__post_init__()
        for name in UNUSED_KEYS.get(self.kind, ()):
            default, value = type(self).__dataclass_fields__[name].default, getattr(self, name)
            if value != default:
                raise ConfigError(f"model.{name} must be left out where model.kind is {self.kind}, got {value}")
        if self.src_vocab_size and self.tie_embeddings:
            raise ConfigError(
                f"model.tie_embeddings must be false where the source has a vocabulary of its own, got true and "
                f"model.src_vocab_size = {self.src_vocab_size}"
            )
        for name in () if self.kind == "recurrent" else ("d_k", "d_v"):
            if getattr(self, name) == 0:
                if self.d_model % self.n_heads:
                    raise ConfigError(
                        f"model.d_model must be a multiple of n_heads when {name} is not given, "
                        f"got {self.d_model} and {self.n_heads}; set model.{name}"
                    )
                object.__setattr__(self, name, self.d_model // self.n_heads)

    @classmethod
    def base(cls, vocab_size: int = 37000, **changes) -> "ModelConfig":
        """The base model  [Table 3, row base]."""
        return cls.table3("base", vocab_size, **changes)

    @classmethod
    def big(cls, vocab_size: int = 37000, **changes) -> "ModelConfig":
        """The big model  [Table 3, row big]."""
        return cls.table3("big", vocab_size, **changes)

    @classmethod
    def table3(cls, row: str, vocab_size: int = 37000, **changes) -> "ModelConfig":
        """The model of a row of Table 3: ``"base"``, ``"A1"`` to ``"E"``, ``"big"``."""
        if row not in TABLE3_ROWS:
            raise ConfigError(f"table3: row must be one of {', '.join(TABLE3_ROWS)}, got {row!r}")
        return cls(**{"vocab_size": vocab_size} | TABLE3_ROWS[row] | changes)


UNUSED_KEYS: dict[str, list[str]] = {
    "transformer": ["attention"],
    "language_model": ["attention", "src_vocab_size", "tie_embeddings"],
    "recurrent": "attention_bias d_ff d_k d_v max_positions n_heads norm p_drop_attention p_drop_ffn positions".split(),
}
"""Keys that a kind of model does not use: anything but their default is refused."""

MODEL_SECTIONS: dict[str, type[ModelConfig]] = dict.fromkeys(UNUSED_KEYS, ModelConfig)
"""The class of the section [model] for each kind; a registered kind may have options of its own."""


def model_section(kind: object, where: str = "") -> type[ModelConfig]:
    """The class of [model] for ``kind``; ConfigError, which begins with ``where``, if there is no such kind."""
    if not isinstance(kind, str) or kind not in MODEL_SECTIONS:
        raise ConfigError(
            f"{where}model.kind must be one of {', '.join(MODEL_SECTIONS)}, got {quote(kind, 60)}; other kinds are "
            "known to programs that call register_model, such as python -m examples.paper.run COMMAND"
        )
    return MODEL_SECTIONS[kind]


# What each row changes from the base model  [Table 3].
TABLE3_ROWS: dict[str, dict] = {
    "base": {},
    "A1": {"n_heads": 1, "d_k": 512, "d_v": 512},
    "A2": {"n_heads": 4, "d_k": 128, "d_v": 128},
    "A3": {"n_heads": 16, "d_k": 32, "d_v": 32},
    "A4": {"n_heads": 32, "d_k": 16, "d_v": 16},
    "B1": {"d_k": 16},
    "B2": {"d_k": 32},
    "C1": {"n_layers": 2},
    "C2": {"n_layers": 4},
    "C3": {"n_layers": 8},
    "C4": {"d_model": 256, "d_k": 32, "d_v": 32},
    "C5": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "C6": {"d_ff": 1024},
    "C7": {"d_ff": 4096},
    "D1": {"p_drop": 0.0},
    "D2": {"p_drop": 0.2},
    "D3": {"label_smoothing": 0.0},
    "D4": {"label_smoothing": 0.2},
    "E": {"positions": "learned"},
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "p_drop": 0.3},
}
