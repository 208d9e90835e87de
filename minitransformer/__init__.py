"""minitransformer: the Transformer of "Attention Is All You Need", written out by hand."""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.2.0"

_EXPORTS = {
    "autograd": ["Tensor", "check_gradient", "functions", "no_grad"],
    "checkpoints": ["load_checkpoint", "load_model", "save_checkpoint"],
    "config": ["Config", "DataConfig", "ModelConfig", "TrainingConfig"],
    "errors": ["MiniTransformerError"],
    "evaluation": [],
    "generation": [],
    "models": ["LanguageModel", "Transformer", "register_model"],
    "nn": [],
    "optim": ["Adam", "clip_gradient_norm", "learning_rate"],
    "ops": [],
    "pipeline": ["Pipeline", "Translation", "load"],
    "text": ["Tokenizer", "pad_batch"],
    "training": ["Corpus", "Trainer"],
}
"""Modules and the names re-exported from each. They are imported on first access."""

_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> _Any:
    if name in _EXPORTS:
        return _import_module(f"minitransformer.{name}")
    if name in _MODULE_OF:
        return getattr(_import_module(f"minitransformer.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'minitransformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_EXPORTS, "__version__"]
