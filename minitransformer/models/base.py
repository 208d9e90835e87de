"""The interface of a model: everything else about it stays inside `models`."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from copy import deepcopy
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from minitransformer import kernels
from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array, get_array_module
from minitransformer.batch import Batch
from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.kernels.precision import check_precision
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.module import Module, Parameter, ParameterVector, unshared_parameters
from minitransformer.nn.randomness import DropoutMasks, Initializer, ShapesOnly

INSTEAD = {
    **dict.fromkeys(["train", "eval"], "there is no mode: `loss` applies dropout if it is given dropout masks"),
    "state_dict": "parameters[name].data is an array, and minitransformer.checkpoints writes them all",
    "to": "build the model on the device: build_model(config, xp=cupy), load_model(path, device)",
}
"""What to do instead, for attributes that models have in PyTorch but not here."""


class Workload(NamedTuple):
    """The matrix products of a forward pass for one sentence, from which FLOPs follow. Lengths are in positions.

    attentions: (number of layers, queries, keys, keys that each query attends to) of each kind of attention
    feed_forwards: (number of layers, positions) of each stack
    outputs: positions that get logits   products: multiplications in all other matrix products
    """

    attentions: tuple[tuple[int, int, int, int], ...]
    feed_forwards: tuple[tuple[int, int], ...]
    outputs: int
    products: int = 0


class Model(Module, ABC):
    """What the rest of the package needs from a model; each kind of model defines the abstract methods.

    Training calls `loss`; generation calls `start` and `decode_step`; planning reads `workload`.
    Without ``dropout`` a model evaluates: there is no training mode.

    seed: of the initial weights   xp: the array library, NumPy or CuPy
    precision: of `loss`, one of PRECISIONS; everything else computes in float32, or in TF32 if this is not float32
    kernel_mode: ``fast`` or ``simple``, as ``execution.kernels``

    Attributes:
        parameters: all parameters, views of one vector.

    Raises:
        ConfigError: the vocabulary size is missing, the precision is not available with this library or config, or
            there is no such kernel mode.
    """

    is_decoder_only = False
    """Whether the source is a prompt that the output continues; `loss` does not read ``batch.src``."""

    supports_half_precision = True
    """Whether each of its rules has a CUDA kernel; those without one run on a GPU as they do on the CPU."""

    shares_prefixes = False
    """Whether `decode_step` groups rows by sentence, as a beam's `PrefixTreeCache` needs it."""

    def __init__(
        self,
        config: ModelConfig,
        seed: int = 0,
        xp: ModuleType = np,
        precision: str = "float32",
        kernel_mode: str = "fast",
    ):
        if config.vocab_size < 1:
            raise ConfigError("model.vocab_size must be at least 1 to build a model, got 0; take it from the tokenizer")
        check_precision(precision, config.dtype, xp, kernel_mode)
        if precision not in ("float32", "tf32") and not self.supports_half_precision:
            raise ConfigError(
                "execution.precision must be float32 or tf32 for a kind of model that has rules without a CUDA kernel, "
                f"got {precision!r}; change one of the two"
            )
        self.config, self.xp, self.precision, self.kernel_mode = config, xp, precision, kernel_mode
        self.build(config, Initializer(seed))
        self.parameters = ParameterVector(self, config.dtype, xp)

    def __getattr__(self, name: str) -> Any:
        hint = f"; {INSTEAD[name]}" if name in INSTEAD else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    def __getstate__(self) -> dict:
        """For copy.deepcopy and pickle: a copy has a vector of its own, and gradients of zero."""
        own = {name: value for name, value in vars(self).items() if name not in ("xp", "parameters")}
        return {"own": own, "frozen": self.parameters.frozen}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state["own"])
        self.xp = get_array_module(*(each.data for each in unshared_parameters(self).values()))
        self.parameters = ParameterVector(self, self.config.dtype, self.xp)
        self.parameters.frozen = list(state["frozen"])

    def __copy__(self) -> "Model":
        return deepcopy(self)  # two models cannot share parameters: they are views of one model's vector

    @classmethod
    def parameter_shapes(cls, config: ModelConfig) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter by its name. No memory is allocated for the values."""
        model = cls.__new__(cls)
        model.build(config, ShapesOnly())
        return {name: parameter.shape for name, parameter in unshared_parameters(model).items()}

    @abstractmethod
    def build(self, config: ModelConfig, init: Initializer) -> None:
        """Make the layers and parameters, as attributes."""

    def build_embeddings(self, config: ModelConfig, init: Initializer) -> Parameter:
        """Set ``embedding`` (of the source) and ``projection`` (to logits); return the target's embedding.

        All are one matrix, (V, d_model), unless ``model.tie_embeddings`` is false      [sec. 3.4]
        """
        self.embedding = Parameter(init.normal(config.src_vocab_size or config.vocab_size, config.d_model))
        tgt_table = self.projection = self.embedding
        if not config.tie_embeddings:
            tgt_table = Parameter(init.normal(config.vocab_size, config.d_model))
            self.projection = Parameter(init.normal(config.vocab_size, config.d_model))
        return tgt_table

    @abstractmethod
    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        """(label-smoothed cross-entropy, negative log-likelihood), nats summed over targets that are not PAD."""

    @abstractmethod
    def start(self, src_ids: Array, max_length: int) -> KeyValueCache:
        """The cache with which a search begins: what is computed once for each source, (B, S), and room for
        ``max_length`` tokens. No gradients are recorded."""

    @abstractmethod
    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        """Logits of the next token after ``last_ids``, (R,) to (R, V); ``cache`` grows by one position."""

    @classmethod
    @abstractmethod
    def workload(cls, config: ModelConfig, src_length: int, tgt_length: int) -> Workload:
        """What a sentence of these lengths costs."""

    def token_loss(self, hidden: Tensor, table: Tensor, tgt_out: Array) -> tuple[Tensor, Tensor]:
        """`loss` of the logits hidden E^T.   hidden: (B, T, d_model)   table: E, (V, d_model)   tgt_out: (B, T)"""
        tgt_out = self.check_ids(tgt_out, "tgt_out")
        if tgt_out.shape != hidden.shape[:2]:
            where = type(self).__name__
            raise ShapeError(f"{where}: tgt_out must have the shape of tgt_in, {hidden.shape[:2]}, got {tgt_out.shape}")
        return functions.projection_loss(
            hidden.reshape(-1, hidden.shape[-1]),  # (B * T, d_model)
            table,
            targets=tgt_out.reshape(-1),
            label_smoothing=self.config.label_smoothing,
        )

    def attention_maps(self, src_ids: Array, tgt_ids: Array) -> dict[str, np.ndarray]:
        """Attention weights by the name of the attention, for figures; ConfigError if this kind has none."""
        raise ConfigError(
            f"attention_maps: model.kind must have attention maps, as transformer has, got {self.config.kind!r}"
        )

    def check_pair(self, src_ids: Array, tgt_ids: Array) -> tuple[Array, Array]:
        """`check_ids` of both sides; ShapeError if there is not one target per source."""
        src_ids, tgt_ids = self.check_ids(src_ids, "src_ids"), self.check_ids(tgt_ids, "tgt_ids")
        if len(tgt_ids) != len(src_ids):
            raise ShapeError(
                f"{type(self).__name__}: there must be one target per source, got {len(tgt_ids)} and {len(src_ids)}"
            )
        return src_ids, tgt_ids

    def check_last_ids(self, last_ids: Array, cache: KeyValueCache) -> Array:
        """`check_ids` of a decoding step's input, (R,) to (R, 1); ShapeError if it is not one id per row."""
        ids = self.check_ids(self.xp.asarray(last_ids)[:, None], "last_ids")
        if len(ids) != cache.n_rows:
            raise ShapeError(f"decode_step: last_ids must be one for each of {cache.n_rows} rows, got {len(ids)}")
        return ids

    def prepare_for_inference(self) -> None:
        """Make all parameters read-only for good, so that kernels may keep copies of them in the layout that multiplies
        fastest. To change them, use ``copy.deepcopy(model)``. Arrays on a GPU stay as they are."""
        if self.xp is np:
            vector = self.parameters.data
            # The base too: otherwise the vector could be made writable, and the copies of its views would be old.
            for array in (vector.base, vector, *(self.parameters[name].data for name in self.parameters.names)):
                kernels.prepare_for_inference(array)

    @property
    def max_positions(self) -> int | None:
        """Maximum tokens of a sentence, including EOS or BOS, if positions are learned; else None."""
        return self.config.max_positions if self.config.positions == "learned" else None

    def autocast(self) -> AbstractContextManager:
        """A context in which rules compute in the model's own precision and kernel mode."""
        return kernels.mode(self.kernel_mode, self.precision)

    def float32_activations(self) -> AbstractContextManager:
        """As `autocast`, but no activation is stored in half precision: searches compare nearly equal scores."""
        return kernels.mode(self.kernel_mode, "float32" if self.precision == "float32" else "tf32")

    def check_ids(self, ids: Array, name: str) -> Array:
        """``ids``, (B, T), checked and on the model's device. A negative id would index from the end.

        name: ``src_ids`` for ids of the source, which may have a vocabulary of its own

        Raises:
            ShapeError: they are not integers within the vocabulary; ids already on a GPU are not checked.
        """
        where = type(self).__name__
        try:
            ids = ids if hasattr(ids, "dtype") else np.asarray(ids)
        except ValueError as error:
            raise ShapeError(f"{where}: {name} must be rows of one length, got others; text.pad_batch pads") from error
        if not isinstance(ids, np.ndarray):
            return self.xp.asarray(ids)
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
            raise ShapeError(f"{where}: {name} must be a (B, T) array of integers, got {ids.dtype} {ids.shape}")
        size = name == "src_ids" and self.config.src_vocab_size or self.config.vocab_size
        if not (ids.min() >= 0 and ids.max() < size):
            raise ShapeError(
                f"{where}: {name} must hold ids in 0..{size - 1}, got {ids.min()}..{ids.max()}; is "
                "this the tokenizer the model was trained with?"
            )
        return self.xp.asarray(ids)
