"""Every setting of the project, each with its default, unit and meaning. A TOML file fills them, section by section."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from minitransformer.errors import ConfigError, quote
from minitransformer.model_config import ModelConfig, model_section
from minitransformer.settings import Section, option, read_toml, section_from, with_settings

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Ids that every vocabulary reserves: padding, beginning of sentence, end of sentence, unknown."""

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
"""How activations are stored and products computed; see ExecutionConfig.precision."""

KERNEL_MODES = ("simple", "fast")
"""Whether plain rules or fast kernels compute; see ExecutionConfig.kernels."""

TOKENIZERS = ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none")
"""sacreBLEU's tokenizers: its default, those for text without spaces between words, and none for tokenized text."""


@dataclass(frozen=True)
class DataConfig(Section):
    """The text, its tokenizer and the size of batches  [sec. 5.1]."""

    train_src: str = option("", "source side of the training text, path (.gz and .xz too)")
    train_tgt: str = option("", "target side of the training text, path")
    train_ids: str = option("", "training pairs as ids instead of text, folder made by `binarize`, path")
    valid_src: str = option("", "source side of the validation text, path (empty: no validation)")
    valid_tgt: str = option("", "target side of the validation text, path")
    tokenizer: str = option("", "tokenizer file made by `bpe train`, or a checkpoint with one, path")
    src_tokens: int = option(4096, "maximum number of padded source tokens in a micro-batch", low=1)
    tgt_tokens: int = option(4096, "maximum number of padded target tokens in a micro-batch", low=1)
    max_length: int = option(256, "longer training sentences are left out and counted, tokens including EOS", low=1)
    bpe_dropout: float = option(
        0.0, "probability of skipping a merge as each epoch segments the training text (0: never)", low=0, high=0.999
    )


@dataclass(frozen=True)
class ExecutionConfig(Section):
    """Where and how the model is computed. A run may resume with other values: they affect only rounding and the
    dropout masks, which differ between CPU and GPU."""

    device: str = option("auto", "where arrays live; auto: the GPU if one is usable", choices=("cpu", "cuda", "auto"))
    precision: str = option(
        "float32",
        "on a GPU, how products are computed (tf32) or activations stored and multiplied (bfloat16, float16)",
        choices=PRECISIONS,
    )
    kernels: str = option("fast", "simple: the plain rules; fast: fast kernels where they exist", choices=KERNEL_MODES)


@dataclass(frozen=True)
class TrainingConfig(Section):
    """How the model learns  [sec. 5.2, 5.3]."""

    directory: str = option("runs/model", "folder for checkpoints and metrics, path")
    init_from: str = option(
        "",
        "checkpoint or run whose parameters a new run starts from, or word vectors (.vec) for its embeddings, path "
        "(empty: random initialization)",
    )
    freeze: str = option(
        "", "parameters that are not trained: prefixes of their names, separated by spaces, such as encoder"
    )
    seed: int = option(1, "seed of initial weights, data order and dropout", low=0, high=2**63 - 1)
    updates: int = option(100000, "total number of parameter updates", low=0)
    micro_batches: int = option(1, "micro-batches whose gradients make up one update", low=1, high=10000)
    threads: int = option(
        0,
        "threads on the CPU, which take micro-batches in parallel and share large products (0: one per core, or one "
        "per rank if there are several ranks)",
        low=0,
        high=1000,
    )
    deterministic_reduce: bool = option(
        False, "MPI ranks: sum in the order of the ranks, so that every run gives the same bits"
    )
    timeout: float = option(
        300.0, "several ranks: the job ends if one keeps the others waiting for this long, seconds", low=1
    )
    warmup_steps: int = option(4000, "updates over which the learning rate rises", low=1)
    schedule: str = option(
        "inverse_sqrt", "learning rate after warm-up: as in eq. 3, or constant", choices=("inverse_sqrt", "constant")
    )
    learning_rate: float = option(0.0, "peak learning rate (0: that of eq. 3)", low=0, high=1e6)
    lr_scale: float = option(1.0, "factor on the learning rate", low=0, high=1e6)
    beta1: float = option(0.9, "Adam's decay of the mean gradient", low=0, high=0.999999)
    beta2: float = option(0.98, "Adam's decay of the mean squared gradient", low=0, high=0.999999)
    eps: float = option(1e-9, "Adam's epsilon", low=1e-16)
    clip_norm: float = option(0.0, "larger gradients are scaled to this norm (0: no clipping, as in the paper)", low=0)
    skip_nonfinite: bool = option(False, "skip updates whose loss or gradient is NaN or infinite (false: stop)")
    log_every: int = option(50, "updates between two lines of metrics", low=1)
    validate_every: int = option(1000, "updates between two validations (0: never)", low=0)
    validate_bleu: bool = option(False, "also translate the validation text greedily and score it")
    save_every: int = option(1000, "updates between checkpoints, besides one before each validation (0: none)", low=0)
    save_minutes: float = option(0.0, "minutes between checkpoints, in addition to save_every (0: off)", low=0)
    keep_checkpoints: int = option(10, "newest checkpoints to keep; those saved on a signal go first (0: all)", low=0)

    def __post_init__(self):
        super().__post_init__()
        if not self.directory:
            raise ConfigError("training.directory must name a folder, got ''")

    def saves_at(self, update: int) -> bool:
        """Whether an uninterrupted run saves this update; with ``save_minutes`` it may save any."""
        every = [each for each in (self.save_every, self.validate_every) if each]
        return self.save_minutes > 0 or update == self.updates or any(update % each == 0 for each in every)


@dataclass(frozen=True)
class TranslationConfig(Section):
    """How sentences are decoded  [sec. 6.1]."""

    beam_size: int = option(4, "hypotheses kept per sentence (1: greedy; paper: 4)", low=1, high=100)
    alpha: float = option(0.6, "exponent of the length penalty ((5 + |Y|) / 6)^alpha (paper: 0.6)", low=0, high=100)
    max_extra: int = option(50, "maximum output length minus input length, tokens (paper: 50)", low=0, high=1000)
    max_input_length: int = option(1024, "longer lines are reported and not translated, tokens", low=1, high=10_000)
    batch_tokens: int = option(4096, "maximum of beam_size times a batch's padded source tokens", low=1, high=1 << 20)


@dataclass(frozen=True)
class Config:
    """All sections of a run; ``Config.load`` reads them from TOML and applies ``--set`` options."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    translation: TranslationConfig = field(default_factory=TranslationConfig)

    def __post_init__(self):
        for spec in fields(self):
            if not isinstance(section := getattr(self, spec.name), spec.default_factory):
                raise ConfigError(f"config: {spec.name} must be a {spec.type.__name__}, got {quote(section)}")

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
