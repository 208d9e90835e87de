"""Every setting of the project, each with its default, unit and meaning. A TOML file fills them, section by section."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from minitransformer.errors import ConfigError, quote
from minitransformer.settings import Section, option, read_toml, section_from, with_settings

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Ids that every vocabulary reserves: padding, begin of sentence, end of sentence, unknown."""

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
"""How activations are stored and products computed; see ExecutionConfig.precision."""

KERNEL_MODES = ("simple", "fast")
"""Which form of a rule is computed; see ExecutionConfig.kernels."""


@dataclass(frozen=True)
class ModelConfig(Section):
    """The shape of the model  [sec. 3, sec. 5.4, Table 3]."""

    kind: str = option("transformer", "model: transformer, language_model, recurrent, or one that was registered")
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
    attention_bias: bool = option(False, "biases on W^Q, W^K, W^V, W^O")
    attention: str = option(
        "dot",
        "how a recurrent decoder attends to the source; none: it has the encoder's last state alone",
        choices=("dot", "additive", "none"),
    )
    dtype: str = option("float32", "floating-point type of parameters", choices=("float32", "float64"))

    def __post_init__(self):
        super().__post_init__()
        for name in UNUSED_KEYS.get(self.kind, ()):
            default, value = type(self).__dataclass_fields__[name].default, getattr(self, name)
            if value != default:
                raise ConfigError(f"model.{name} must be left out where model.kind is {self.kind}, got {value}")
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
    **dict.fromkeys(("transformer", "language_model"), ["attention"]),
    "recurrent": "attention_bias d_ff d_k d_v max_positions n_heads norm p_drop_attention p_drop_ffn positions".split(),
}
"""Keys that a kind of model does not read: anything but their default is refused."""

MODEL_SECTIONS: dict[str, type[ModelConfig]] = dict.fromkeys(UNUSED_KEYS, ModelConfig)
"""What [model] holds for each kind; one that is registered may have options of its own."""


def model_section(kind: object, where: str = "") -> type[ModelConfig]:
    """That of ``kind``; raises ConfigError, which begins with ``where``, if there is no such kind."""
    if not isinstance(kind, str) or kind not in MODEL_SECTIONS:
        raise ConfigError(
            f"{where}model.kind must be one of {', '.join(MODEL_SECTIONS)}, got {quote(kind, 60)}; other kinds are "
            "known to programs that register_model them, such as python -m examples.paper.run COMMAND"
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


@dataclass(frozen=True)
class DataConfig(Section):
    """The text, its tokenizer and the size of batches  [sec. 5.1]."""

    train_src: str = option("", "source side of the training text, path (.gz and .xz too)")
    train_tgt: str = option("", "target side of the training text, path")
    train_ids: str = option("", "training pairs as ids instead of text, folder made by `binarise`, path")
    valid_src: str = option("", "source side of the validation text, path (empty: no validation)")
    valid_tgt: str = option("", "target side of the validation text, path")
    tokenizer: str = option("", "tokenizer file made by `bpe train`, path")
    src_tokens: int = option(4096, "padded source tokens in a micro-batch, at most", low=1)
    tgt_tokens: int = option(4096, "padded target tokens in a micro-batch, at most", low=1)
    max_length: int = option(256, "longer training sentences are left out and counted, tokens with the end mark", low=1)


@dataclass(frozen=True)
class ExecutionConfig(Section):
    """Where and how the model is computed. A run may resume with other values: only rounding depends on them."""

    device: str = option("auto", "where arrays live; auto: the GPU if one is usable", choices=("cpu", "cuda", "auto"))
    precision: str = option(
        "float32",
        "on a GPU, how products are computed (tf32) or activations stored and multiplied (bfloat16, float16)",
        choices=PRECISIONS,
    )
    kernels: str = option("fast", "the plain rules alone, or fast kernels where there are some", choices=KERNEL_MODES)


@dataclass(frozen=True)
class TrainingConfig(Section):
    """How the model learns  [sec. 5.2, 5.3]."""

    directory: str = option("runs/model", "folder for checkpoints and metrics, path")
    seed: int = option(1, "seed of initial weights, data order and dropout", low=0, high=2**63 - 1)
    updates: int = option(100000, "updates of the parameters in all", low=0)
    micro_batches: int = option(1, "micro-batches whose gradients make one update", low=1, high=10000)
    threads: int = option(
        0,
        "threads on the CPU, which take micro-batches in parallel and share large products (0: one for each core)",
        low=0,
        high=1000,
    )
    deterministic_reduce: bool = option(
        False, "ranks of MPI: sum in the order of the ranks, so that every run has the same bits"
    )
    timeout: float = option(
        300.0, "several ranks: one that keeps the others waiting for this long ends the job, seconds", low=1
    )
    warmup_steps: int = option(4000, "updates over which the learning rate rises", low=1)
    lr_scale: float = option(1.0, "factor on the learning rate of eq. 3", low=0, high=1e6)
    beta1: float = option(0.9, "Adam's decay of the mean gradient", low=0, high=0.999999)
    beta2: float = option(0.98, "Adam's decay of the mean squared gradient", low=0, high=0.999999)
    eps: float = option(1e-9, "Adam's epsilon", low=1e-16)
    clip_norm: float = option(0.0, "larger gradients are scaled to this norm (0: no clipping, as the paper)", low=0)
    skip_nonfinite: bool = option(False, "skip updates whose loss or gradient is NaN or infinite (false: stop)")
    log_every: int = option(50, "updates between two lines of metrics", low=1)
    validate_every: int = option(1000, "updates between two validations (0: never)", low=0)
    validate_bleu: bool = option(False, "also translate the validation text greedily and score it")
    save_every: int = option(1000, "updates between two checkpoints, besides one before a validation (0: none)", low=0)
    save_minutes: float = option(0.0, "minutes between two checkpoints, besides save_every (0: off)", low=0)
    keep_checkpoints: int = option(10, "newest checkpoints that are kept (0: all)", low=0)

    def __post_init__(self):
        super().__post_init__()
        if not self.directory:
            raise ConfigError("training.directory must name a folder, got ''")


@dataclass(frozen=True)
class TranslationConfig(Section):
    """How sentences are decoded  [sec. 6.1]."""

    beam_size: int = option(4, "hypotheses kept per sentence (1: greedy; paper: 4)", low=1, high=100)
    alpha: float = option(0.6, "exponent of the length penalty ((5 + |Y|) / 6)^alpha (paper: 0.6)", low=0, high=100)
    max_extra: int = option(50, "maximum output length minus input length, tokens (paper: 50)", low=0, high=1000)
    max_input_length: int = option(1024, "longer lines are reported, not translated, tokens", low=1, high=10_000)
    batch_tokens: int = option(4096, "padded source tokens of a batch, times beam_size, at most", low=1, high=1 << 20)


@dataclass(frozen=True)
class Config:
    """All sections of a run; ``Config.load`` reads them from TOML and applies ``--set`` options."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    translation: TranslationConfig = field(default_factory=TranslationConfig)

    @classmethod
    def from_dict(cls, tables: dict, where: str = "config") -> "Config":
        sections = {spec.name: spec.default_factory for spec in fields(cls)}
        made = {}
        for name, table in tables.items():
            if name not in sections:
                raise ConfigError(f"{where}: unknown section {quote(name)}; known: {', '.join(sections)}")
            if name == "model" and isinstance(table, dict):
                sections[name] = model_section(table.get("kind", "transformer"), f"{where}: ")
            made[name] = section_from(sections[name], table, where)
        return cls(**made)

    @classmethod
    def load(cls, path: str | Path, settings: Sequence[str] = ()) -> "Config":
        """Read a TOML file, then apply settings such as ``"training.updates=100"``.

        Raises:
            ConfigError: no such file, not TOML, an unknown key, a wrong type or a value out of range.
        """
        tables = read_toml(path)
        cls.from_dict(tables, str(path))  # so that a fault in the file is not blamed on a setting
        return cls.from_dict(with_settings(tables, settings), "with --set")

    def to_dict(self) -> dict:
        return asdict(self)
