"""Adapters: they turn the engine's heads and sentences into the calls of the exercises.

``f`` has the functions by the names of their exercises. An adapter makes (forward, backward) of a rule; a rule that
consists of others, such as the loss of a projection, the engine composes of them.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from minitransformer.config import PAD
from minitransformer.ops.linear import linear_forward
from minitransformer.ops.rule import Rule

Functions = Mapping[str, Callable]


def rows_of(x):
    """All positions of all sentences below each other, (N, d)"""
    return x.reshape(-1, x.shape[-1])


def linear(f: Functions):
    def backward(grad_y, saved):
        x, shape, weight, has_bias = saved
        grad_x, *others = f["01_arrays.linear_backward"](rows_of(grad_y), x, weight)
        return grad_x.reshape(shape), *others[: 1 + has_bias]

    return linear_forward, backward


def dropout(f: Functions):
    def forward(x, *, keep, p_drop):
        y = x if keep is None else f["11_training.dropout"](x, keep, p_drop, True)
        return y, (keep, p_drop)

    def backward(grad_y, saved):
        keep, p_drop = saved
        return (forward(grad_y, keep=keep, p_drop=p_drop)[0],)

    return forward, backward


def cross_entropy(f: Functions):
    loss_of, loss_backward = f["03_softmax.smoothed_loss"], f["03_softmax.loss_backward"]

    def forward(logits, *, targets, label_smoothing=0.0, pad_id=PAD):
        loss = loss_of(logits, targets, label_smoothing)
        nll = loss_of(logits, targets, 0.0) if label_smoothing else loss
        return (loss, nll), (logits, targets, label_smoothing)

    return forward, lambda grad_loss, grad_nll, saved: (loss_backward(grad_loss, *saved),)


def attention(f: Functions):
    weights_of, attention_backward = f["04_attention.weights"], f["04_attention.backward"]
    drop, drop_backward = dropout(f)

    def forward(q, k, v, *, mask=None, keep=None, p_drop=0.0):
        weights = weights_of(q, k, np.broadcast_to(True if mask is None else mask, (*q.shape[:-1], k.shape[-2])))
        dropped, saved_dropout = drop(weights, keep=keep, p_drop=p_drop)
        return dropped @ v, (q, k, v, weights, dropped, saved_dropout)

    def backward(grad_y, saved):
        q, k, v, weights, dropped, saved_dropout = saved
        if dropped is weights:
            return attention_backward(grad_y, q, k, v, weights)
        # With dropout in between: if the values were the identity, the output would be the weights.
        (grad_weights,) = drop_backward(grad_y @ v.swapaxes(-1, -2), saved_dropout)
        identity = np.broadcast_to(np.eye(v.shape[-2], dtype=v.dtype), (*v.shape[:-1], v.shape[-2]))
        grad_q, grad_k, _ = attention_backward(grad_weights, q, k, identity, weights)
        return grad_q, grad_k, dropped.swapaxes(-1, -2) @ grad_y

    return forward, backward


def split_heads(f: Functions):
    split, merge = f["05_heads.split"], f["05_heads.merge"]

    def forward(packed, *, n_heads, widths):
        batch, length, _ = packed.shape
        ends = np.cumsum([n_heads * width for width in widths])[:-1]
        parts = np.split(rows_of(packed), ends, axis=-1)
        heads = tuple(split(part, n_heads).reshape(n_heads, batch, length, -1).swapaxes(0, 1) for part in parts)
        return heads if len(heads) > 1 else heads[0], tuple(each.shape for each in heads)

    def backward(*grads_and_shapes):
        *grads, shapes = grads_and_shapes
        grads = [np.zeros(shape) if grad is None else grad for grad, shape in zip(grads, shapes, strict=True)]
        batch, n_heads, length, _ = shapes[0]
        merged = [merge(grad.swapaxes(0, 1).reshape(n_heads, batch * length, -1)) for grad in grads]
        return (np.concatenate(merged, axis=-1).reshape(batch, length, -1),)

    return forward, backward


def merge_heads(f: Functions):
    split, merge = split_heads(f)

    def forward(heads):
        return merge(heads, (heads.shape,))[0], heads.shape

    return forward, lambda grad_y, shape: (split(grad_y, n_heads=shape[1], widths=shape[3:])[0],)


def layer_norm(f: Functions):
    norm, norm_backward = f["06_layer_norm.forward"], f["06_layer_norm.backward"]

    def forward(x, gamma, beta, *, eps=1e-6):
        return norm(x, gamma, beta, eps), (x, gamma, eps)

    return forward, lambda grad_y, saved: norm_backward(grad_y, *saved)


def feed_forward(f: Functions):
    feed, feed_backward = f["07_feed_forward.forward"], f["07_feed_forward.backward"]
    (drop, drop_backward), (_, linear_backward) = dropout(f), linear(f)

    def forward(x, w1, b1, w2, b2, *, keep=None, p_drop=0.0):
        if keep is None:
            return feed(rows_of(x), w1, b1, w2, b2).reshape(x.shape), (x, w1, b1, w2, b2)
        # With dropout in between: if the second matrix were the identity, the output would be the hidden values.
        identity = np.eye(len(w2), dtype=w2.dtype), np.zeros(len(w2), w2.dtype)
        active = feed(rows_of(x), w1, b1, *identity).reshape(keep.shape)
        dropped, saved_dropout = drop(active, keep=keep, p_drop=p_drop)
        y, saved_second = linear_forward(dropped, w2, b2)
        return y, (x, w1, b1, *identity, saved_dropout, saved_second)

    def backward(grad_y, saved):
        (x, *weights), saved_parts = saved[:5], saved[5:]
        others = ()
        if saved_parts:
            grad_y, *others = linear_backward(grad_y, saved_parts[1])
            (grad_y,) = drop_backward(grad_y, saved_parts[0])
        grad_x, *grads = feed_backward(rows_of(grad_y), rows_of(x), *weights)
        return grad_x.reshape(x.shape), *grads[:2], *(others or grads[2:])

    return forward, backward


def embedding(f: Functions):
    look_up, look_up_backward = f["08_positions.embedding"], f["08_positions.embedding_backward"]

    def forward(table, *, ids, scale=1.0):
        factor = scale / math.sqrt(table.shape[1])
        y = factor * look_up(table, ids.reshape(-1))
        return y.reshape(*ids.shape, -1), (ids, len(table), factor)

    def backward(grad_y, saved):
        ids, n_tokens, factor = saved
        return (look_up_backward(factor * rows_of(grad_y), ids.reshape(-1), n_tokens),)

    return forward, backward


ADAPTERS = {
    "dropout": (dropout, ["11_training.dropout"]),
    "linear": (linear, ["01_arrays.linear_backward"]),
    "cross_entropy": (cross_entropy, ["03_softmax.smoothed_loss", "03_softmax.loss_backward"]),
    "attention": (attention, ["04_attention.weights", "04_attention.backward"]),
    "split_heads": (split_heads, ["05_heads.split", "05_heads.merge"]),
    "merge_heads": (merge_heads, ["05_heads.split", "05_heads.merge"]),
    "layer_norm": (layer_norm, ["06_layer_norm.forward", "06_layer_norm.backward"]),
    "feed_forward": (feed_forward, ["07_feed_forward.forward", "07_feed_forward.backward"]),
    "embedding": (embedding, ["08_positions.embedding", "08_positions.embedding_backward"]),
}
"""Of each rule: what makes it, and the exercises of its functions. Those that others use come first, to be compared
first: a fault is then named after its own exercise."""


def adapted(rule: Rule, f: Functions) -> Rule:
    """``rule`` made of these functions, with results of the type of the engine's arrays."""
    forward, backward = ADAPTERS[rule.name][0](f)

    def typed_forward(*inputs, **options):
        y, saved = forward(*inputs, **options)
        return _as_type(inputs[0].dtype, y), (saved, inputs[0].dtype)

    def typed_backward(*grads_and_saved):
        *grads, (saved, dtype) = grads_and_saved
        return _as_type(dtype, backward(*grads, saved))

    return Rule(rule.name, typed_forward, typed_backward, rule.n_non_differentiable)


def _as_type(dtype, arrays):
    if isinstance(arrays, tuple):
        return tuple(_as_type(dtype, each) for each in arrays)
    return np.asarray(arrays, dtype)
