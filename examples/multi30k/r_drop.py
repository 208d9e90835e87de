"""R-Drop: the same sentences, twice in a batch with different dropout masks, must give the same predictions
[Liang et al. 2021].

Importing this lets ``model.kind = "r_drop"`` name a Transformer trained in this way. It translates like any other.
"""

from dataclasses import dataclass

import numpy as np

from minitransformer.autograd import Tensor, functions
from minitransformer.batch import Batch
from minitransformer.config import PAD, ModelConfig
from minitransformer.models import Transformer, register_model
from minitransformer.nn import DropoutMasks
from minitransformer.settings import option


@dataclass(frozen=True)
class RDropConfig(ModelConfig):
    alpha: float = option(5.0, "weight of the divergence of the two passes from each other", low=0, high=1000)


class RDropTransformer(Transformer):
    """A Transformer whose training loss is that of R-Drop; without dropout it is the Transformer's own."""

    def loss(self, batch: Batch, dropout: DropoutMasks | None = None) -> tuple[Tensor, Tensor]:
        """(loss_1 + loss_2) / 2 + alpha / 4 (KL(p_1 || p_2) + KL(p_2 || p_1)), and the mean of both plain losses

        Nats, summed over targets that are not PAD. p_1, p_2: what the passes predict   loss_1, loss_2: label-smoothed
        It is half the loss of the paper, whose first term is a sum, so the learning rate means what it always does.
        """
        if dropout is None:
            return super().loss(batch)
        with self.autocast():
            src, tgt_in = (np.concatenate([ids, ids]) for ids in (batch.src, batch.tgt_in))
            hidden = self._hidden(src, tgt_in, dropout)  # (2 B, T, d_model); each half has masks of its own
            one, two = (self._logits(half) for half in (hidden[: len(batch.src)], hidden[len(batch.src) :]))  # (N, V)
            targets = self.xp.asarray(batch.tgt_out.reshape(-1))  # (N,), N = B * T
            smoothed = {"targets": targets, "label_smoothing": self.config.label_smoothing}
            (loss_1, nll_1), (loss_2, nll_2) = (functions.cross_entropy(each, **smoothed) for each in (one, two))
            real = (targets != PAD)[:, None].astype(one.dtype)  # (N, 1)
            divergence = (symmetric_divergence(one, two) * real).sum()
            return (loss_1 + loss_2) * 0.5 + divergence * (self.config.alpha / 4), (nll_1 + nll_2) * 0.5

    def _logits(self, hidden: Tensor) -> Tensor:
        """(B, T, d_model) to (N, V)"""
        return functions.linear(hidden.reshape(-1, hidden.shape[-1]), self.projection.transpose())


def symmetric_divergence(a: Tensor, b: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p) = sum_v (p_v - q_v) (a_v - b_v) of each row, where p = softmax(a), q = softmax(b)

    This holds because ln p - ln q is a - b up to a constant, and p - q sums to 0.
    a, b: logits, (N, V)   result: (N, 1)
    """
    return ((functions.softmax(a) - functions.softmax(b)) * (a - b)).sum(axis=-1, keepdims=True)


register_model("r_drop", RDropTransformer, RDropConfig)
