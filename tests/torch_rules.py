"""Each rule in PyTorch: a function of the same name and options on PyTorch's tensors.

A rule that PyTorch has under the same name, with the same arguments, needs no line here.
"""

import builtins
import math

import torch
import torch.nn.functional as F


def power(x, *, exponent):
    return torch.pow(x, exponent)


def max(x, *, axis=None, keepdims=False):
    return torch.amax(x, dim=tuple(range(x.ndim)) if axis is None else axis, keepdim=keepdims)


def transpose(x, *, axes):
    return x.permute(axes)


def broadcast(x, *, shape):
    return x.expand(shape)


def getitem(x, *, index):
    return torch.index_select(x, 0, index) if isinstance(index, torch.Tensor) else _take(x, index)


def _take(x, index):
    """PyTorch has no negative steps: NumPy's indexing selects the flat positions of the elements."""
    numbers = torch.arange(x.numel()).reshape(x.shape).numpy()[index]
    return x.reshape(-1)[torch.from_numpy(numbers.copy())]


def concatenate(*parts, axis=-1):
    return torch.cat(parts, dim=axis)


def split_heads(packed, *, n_heads, widths):
    parts = torch.split(packed, [n_heads * width for width in widths], dim=-1)
    heads = builtins.tuple(part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in parts)
    return heads if len(heads) > 1 else heads[0]


def merge_heads(heads):
    return torch.cat(heads.unbind(dim=1), dim=-1)


def linear(x, weight, bias=None):
    return F.linear(x, weight.T, bias)


def softmax(x, *, mask=None):
    if mask is None:
        return torch.softmax(x, dim=-1)
    # PyTorch gives NaN, forward and backward, for a row masked everywhere: compute such a row unmasked, then zero it.
    mask = mask.expand(x.shape)
    some = mask.any(dim=-1, keepdim=True)
    return torch.softmax(x.masked_fill(~mask & some, -math.inf), dim=-1) * some


def log_softmax(x):
    return torch.log_softmax(x, dim=-1)


def dropout(x, *, keep, p_drop):
    return x if keep is None else torch.where(keep, x / (1 - p_drop), 0.0)


def attention(q, k, v, *, mask=None, keep=None, p_drop=0.0):
    if keep is None and (mask is None or mask.expand(*q.shape[:-1], k.shape[-2]).any(dim=-1).all()):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    weights = softmax(q @ k.mT / math.sqrt(k.shape[-1]), mask=mask)
    return dropout(weights, keep=keep, p_drop=p_drop) @ v


def additive_attention(q, k, v, w, *, mask=None):
    return softmax(torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) @ w, mask=mask) @ v


def gru_cell(x, h, w_x, w_h, b_x, b_h):
    rows = [each.reshape(-1, each.shape[-1]) for each in (x, h)]
    return torch.gru_cell(*rows, w_x.T, w_h.T, b_x, b_h).reshape(h.shape)


def gru(x, h, w_x, w_h, b_x, b_h, *, mask=None, reverse=False):
    """By torch.nn.GRU on packed sequences. PyTorch gives zeros at padding; there the state is the last one."""
    batch, length, _ = x.shape
    lengths = torch.full((batch,), length) if mask is None else mask.sum(dim=1)
    order = torch.arange(length).expand(batch, -1)
    if reverse:  # of each row, its tokens alone
        order = torch.where(order < lengths[:, None], lengths[:, None] - 1 - order, order)
        x = x.gather(1, order[..., None].expand(x.shape))
    weights = {"weight_ih_l0": w_x.T, "weight_hh_l0": w_h.T, "bias_ih_l0": b_x, "bias_hh_l0": b_h}
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    module = torch.nn.GRU(x.shape[2], h.shape[1], batch_first=True, dtype=x.dtype)
    y, last = torch.func.functional_call(module, weights, (packed, h[None]))
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
    if reverse:
        y = y.gather(1, order[..., None].expand(y.shape))
    state_at_padding = h if reverse else last[0]
    return y if mask is None else torch.where(mask[..., None], y, state_at_padding[:, None])


def layer_norm(x, gamma, beta, *, eps=1e-6):
    return F.layer_norm(x, gamma.shape, gamma, beta, eps)


def feed_forward(x, w1, b1, w2, b2, *, keep=None, p_drop=0.0):
    return dropout(F.relu(x @ w1 + b1), keep=keep, p_drop=p_drop) @ w2 + b2


def embedding(table, *, ids, scale=1.0):
    return F.embedding(ids, table) * scale


def positioned_embedding(table, positions, *, ids, scale=1.0, keep=None, p_drop=0.0):
    return dropout(F.embedding(ids, table) * scale + positions, keep=keep, p_drop=p_drop)


def residual_dropout(x, sublayer, *, keep=None, p_drop=0.0):
    return x + dropout(sublayer, keep=keep, p_drop=p_drop)


def residual_dropout_norm(x, sublayer, gamma, beta, *, keep=None, p_drop=0.0, eps=1e-6):
    return layer_norm(residual_dropout(x, sublayer, keep=keep, p_drop=p_drop), gamma, beta, eps=eps)


def cross_entropy(logits, *, targets, label_smoothing=0.0, pad_id=0):
    def summed(eps):
        return F.cross_entropy(logits, targets, reduction="sum", ignore_index=pad_id, label_smoothing=eps)

    return summed(label_smoothing), summed(0.0)


def projection_loss(x, table, *, targets, label_smoothing=0.0, pad_id=0):
    return cross_entropy(F.linear(x, table), targets=targets, label_smoothing=label_smoothing, pad_id=pad_id)


def __getattr__(name):
    return getattr(torch, name)
