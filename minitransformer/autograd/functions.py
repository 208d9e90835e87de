"""The rules as functions of tensors: ``functions.softmax(x)`` for what has no operator."""

from __future__ import annotations

from typing import Any

from minitransformer.autograd.tensor import Tensor, apply
from minitransformer.backend import Array
from minitransformer.errors import ShapeError
from minitransformer.ops import attention as attention_ops
from minitransformer.ops import cross_entropy as cross_entropy_ops
from minitransformer.ops import dropout as dropout_ops
from minitransformer.ops import embedding as embedding_ops
from minitransformer.ops import feed_forward as feed_forward_ops
from minitransformer.ops import layer_norm as layer_norm_ops
from minitransformer.ops import linear as linear_ops
from minitransformer.ops import projection_loss as projection_loss_ops
from minitransformer.ops import residual, shape
from minitransformer.ops import softmax as softmax_ops


def _boolean(mask: Array | None, name: str) -> Array | None:
    """``mask``, but not of the other kind, 0 and -inf to be added: it would be taken the wrong way round."""
    if mask is not None and mask.dtype != bool:
        raise ShapeError(f"{name}: mask must be boolean, True = may attend, got {mask.dtype}")
    return mask


def softmax(x: Tensor, *, mask: Array | None = None) -> Tensor:
    return apply(softmax_ops.softmax, x, mask=_boolean(mask, "softmax"))


def log_softmax(x: Tensor) -> Tensor:
    return apply(softmax_ops.log_softmax, x)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return apply(linear_ops.linear, x, weight, bias)


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Array | None = None, keep: Array | None = None, p_drop: float = 0.0
) -> Tensor:
    mask = _boolean(mask, "attention")
    return apply(attention_ops.attention, q, k, v, mask=mask, keep=keep, p_drop=p_drop)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-6) -> Tensor:
    return apply(layer_norm_ops.layer_norm, x, gamma, beta, eps=eps)


def feed_forward(
    x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, keep: Array | None = None, p_drop: float = 0.0
) -> Tensor:
    return apply(feed_forward_ops.feed_forward, x, w1, b1, w2, b2, keep=keep, p_drop=p_drop)


def embedding(table: Tensor, *, ids: Array, scale: float = 1.0) -> Tensor:
    return apply(embedding_ops.embedding, table, ids=ids, scale=scale)


def dropout(x: Tensor, *, keep: Array | None, p_drop: float) -> Tensor:
    return apply(dropout_ops.dropout, x, keep=keep, p_drop=p_drop)


def residual_dropout(x: Tensor, sublayer: Tensor, *, keep: Array | None = None, p_drop: float = 0.0) -> Tensor:
    return apply(residual.residual_dropout, x, sublayer, keep=keep, p_drop=p_drop)


def residual_dropout_norm(
    x: Tensor, sublayer: Tensor, gamma: Tensor, beta: Tensor, *, keep: Array | None = None, p_drop: float = 0.0
) -> Tensor:
    return apply(residual.residual_dropout_norm, x, sublayer, gamma, beta, keep=keep, p_drop=p_drop)


def cross_entropy(logits: Tensor, *, targets: Array, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    return apply(cross_entropy_ops.cross_entropy, logits, targets=targets, label_smoothing=label_smoothing)


def projection_loss(x: Tensor, table: Tensor, *, targets: Array, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    return apply(projection_loss_ops.projection_loss, x, table, targets=targets, label_smoothing=label_smoothing)


def split_heads(packed: Tensor, *, n_heads: int, widths: tuple[int, ...]) -> Any:
    return apply(shape.split_heads, packed, n_heads=n_heads, widths=widths)


def merge_heads(heads: Tensor) -> Tensor:
    return apply(shape.merge_heads, heads)


def concatenate(parts: list[Tensor], axis: int = -1) -> Tensor:
    return apply(shape.concatenate, *parts, axis=axis)
