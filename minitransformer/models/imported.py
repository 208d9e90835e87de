"""A Transformer with options that other projects' weights need: off by default, as none is in the paper."""

import math
from dataclasses import dataclass

from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array
from minitransformer.batch import Batch
from minitransformer.config import ModelConfig
from minitransformer.models.transformer import Transformer
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.layers import FeedForward, LayerNorm
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer, keep_mask
from minitransformer.settings import option


@dataclass(frozen=True)
class ImportedConfig(ModelConfig):
    """[model] of ``kind = "imported"``."""

    activation: str = option(
        "relu",
        "inside the feed-forward layer: relu (the paper), swish, gelu, or gelu_sigmoid, Marian's form of it",
        choices=("relu", "swish", "gelu", "gelu_sigmoid"),
    )
    output_bias: bool = option(False, "a bias on the logits")
    norm_eps: float = option(1e-6, "epsilon of layer norm (PyTorch: 1e-5)", low=0)
    final_norm: bool = option(False, "a norm after a stack of post-norm layers too, as PyTorch's nn.Transformer has it")


class ImportedTransformer(Transformer):
    """The model of Figure 1 with the options of `ImportedConfig`."""

    supports_half_precision = False

    def build(self, config: ImportedConfig, init: Initializer) -> None:
        super().build(config, init)
        for stack in (self.encoder, self.decoder):
            if config.final_norm:  # pre-norm has one already
                stack.final_norm = LayerNorm(config.d_model, init)
            for layer in stack.layers:
                if config.activation != "relu":
                    layer.feed_forward = ActivatedFeedForward(config, init)
        for norm in _norms(self):
            norm.eps = config.norm_eps
        self.output_bias = Parameter(init.zeros(config.vocab_size)) if config.output_bias else None

    def __call__(self, src_ids: Array, tgt_ids: Array, dropout: DropoutMasks | None = None) -> Tensor:
        logits = super().__call__(src_ids, tgt_ids, dropout)
        return logits if self.output_bias is None else logits + self.output_bias

    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        if self.output_bias is None:
            return super().loss(batch, dropout)
        with self.autocast():
            hidden = self._hidden(batch.src, batch.tgt_in, dropout)
            one = Tensor(self.xp.ones((*hidden.shape[:2], 1), hidden.dtype))
            table = functions.concatenate([self.projection, self.output_bias.reshape(-1, 1)], axis=1)
            return self.token_loss(functions.concatenate([hidden, one], axis=2), table, batch.tgt_out)

    def decode_step(self, last_ids: Array, cache: KeyValueCache) -> Array:
        logits = super().decode_step(last_ids, cache)
        return logits if self.output_bias is None else logits + self.output_bias.data


class ActivatedFeedForward(FeedForward):
    """f(x W1 + b1) W2 + b2 with a function other than ReLU."""

    def __init__(self, config: ImportedConfig, init: Initializer):
        super().__init__(config, init)
        self.activation = config.activation

    def __call__(self, x: Tensor, dropout: DropoutMasks | None = None) -> Tensor:
        hidden = ACTIVATIONS[self.activation](functions.linear(x, self.w1, self.b1))
        keep = keep_mask(dropout, "feed_forward", hidden.shape, self.p_drop, x)
        hidden = functions.dropout(hidden, keep=keep, p_drop=self.p_drop)
        return functions.linear(hidden, self.w2, self.b2)


def _sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x) = (1 + tanh(x / 2)) / 2, which does not overflow"""
    return functions.tanh(x * 0.5) * 0.5 + 0.5


ACTIVATIONS = {
    "swish": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * (functions.erf(x * math.sqrt(0.5)) * 0.5 + 0.5),
    "gelu_sigmoid": lambda x: x * _sigmoid(x * 1.702),
}
"""Functions of a tensor: swish (x * sigmoid), gelu (x * P(N(0, 1) < x)) and its approximation x * sigmoid(1.702 x)."""


def _norms(module: Module) -> list[LayerNorm]:
    """Every layer norm inside the module."""
    if isinstance(module, LayerNorm):
        return [module]
    parts = vars(module).values() if isinstance(module, Module) else module if isinstance(module, list) else ()
    return [norm for part in parts for norm in _norms(part)]
