"""Whole models, and the table that finds them by the key ``model.kind`` of a config."""

from types import ModuleType

import numpy as np

from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError, quote
from minitransformer.model_config import MODEL_SECTIONS, model_section
from minitransformer.models.base import Model, Workload
from minitransformer.models.imported import ImportedConfig, ImportedTransformer
from minitransformer.models.language_model import LanguageModel
from minitransformer.models.recurrent import RecurrentModel
from minitransformer.models.transformer import Transformer

__all__ = [
    "ImportedConfig",
    "ImportedTransformer",
    "LanguageModel",
    "Model",
    "RecurrentModel",
    "Transformer",
    "Workload",
    "build_model",
    "model_class",
    "register_model",
]

_KINDS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "language_model": LanguageModel,
    "recurrent": RecurrentModel,
}


def register_model(kind: str, model: type[Model], section: type[ModelConfig] = ModelConfig) -> None:
    """Let ``model.kind = kind`` mean ``model`` in this process. A config or checkpoint never names code to import.

    section: what [model] holds for this kind: a subclass of ModelConfig with options of its own

    Raises:
        ConfigError: ``model`` is not a subclass of `Model`, or ``kind`` means another model already.
    """
    if not (isinstance(model, type) and issubclass(model, Model)):
        raise ConfigError(f"register_model: the model must be a subclass of Model, got {quote(model)}")
    if _KINDS.setdefault(kind, model) is not model:
        raise ConfigError(f"register_model: the kind must be a new one, got {kind!r}; choose another name")
    MODEL_SECTIONS[kind] = section


register_model("imported", ImportedTransformer, ImportedConfig)


def model_class(config: ModelConfig) -> type[Model]:
    """The class of ``config.kind``.

    Raises:
        ConfigError: there is no such kind.
    """
    model_section(config.kind)
    return _KINDS[config.kind]


def build_model(
    config: ModelConfig, seed: int = 0, xp: ModuleType = np, precision: str = "float32", kernel_mode: str = "fast"
) -> Model:
    """A new model of ``config.kind``; the arguments are those of `Model`."""
    return model_class(config)(config, seed=seed, xp=xp, precision=precision, kernel_mode=kernel_mode)
