"""Restricted self-attention: each position attends only to its neighborhood  [sec. 4]."""

from dataclasses import dataclass
from types import ModuleType

from minitransformer.autograd import Tensor, functions
from minitransformer.autograd.tensor import apply
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer, Workload
from minitransformer.nn import DropoutMasks, KeyValueCache
from minitransformer.nn.attention import MultiHeadAttention
from minitransformer.nn.layers import Stack
from minitransformer.nn.randomness import Initializer, keep_mask
from minitransformer.ops.attention import attention_backward, attention_forward, attention_weights
from minitransformer.ops.rule import Rule
from minitransformer.settings import option

BLOCK_ROWS = 32  # queries of a block, at least: products of smaller matrices cost more than they save


def neighborhood(length: int, window: tuple[int, int], xp: ModuleType) -> Array:
    """True where position t may attend to position s: t - left <= s <= t + right; (T, T)"""
    left, right = window
    offset = xp.arange(length) - xp.arange(length)[:, None]  # s - t
    return (offset >= -left) & (offset <= right)


def restricted_attention_forward(
    q: Array,
    k: Array,
    v: Array,
    *,
    window: tuple[int, int],
    mask: Array | None = None,
    keep: Array | None = None,
    p_drop: float = 0.0,
) -> tuple[Array, tuple]:
    """y_t = softmax(q_t k_s^T / sqrt(d_k)) v_s over the positions s = t - left, ..., t + right      [sec. 4]

    Time and memory are proportional to length times window: queries are split into blocks, at least as long as the
    window, and each block attends to its neighborhood like a sentence of its own. Query i of a
    block may attend to keys i, ..., i + left + right of its neighborhood, which begins ``left`` positions before it.

    q, k: (..., T, d_k)   v: (..., T, d_v)   y: (..., T, d_v)   window: left and right, positions, 0 or more
    mask: boolean, True = may be attended to, one row for all queries of a sentence
    keep: dropout on the weights, (..., T, W) with W = left + right + 1, of the positions from t - left on, or None
    """
    xp, length, (left, right) = get_array_module(q), q.shape[-2], window
    size = max(left + right, min(BLOCK_ROWS, length))
    shape = (length, left, size, size + left + right)
    offsets = xp.arange(shape[-1]) - xp.arange(size)[:, None]  # (size, width)
    tokens = xp.ones((1, length), bool) if mask is None else xp.atleast_2d(mask)
    tokens = _neighborhoods(tokens.swapaxes(-1, -2), *shape).swapaxes(-1, -2)  # (..., n, 1, width)
    allowed = (offsets >= 0) & (offsets <= left + right) & tokens  # (..., n, size, width)
    if keep is not None:
        keep = _blocks(keep, size)[..., xp.arange(size)[:, None], offsets.clip(0, left + right)]
    inputs = _blocks(q, size), _neighborhoods(k, *shape), _neighborhoods(v, *shape)
    y, saved = attention_forward(*inputs, mask=allowed, keep=keep, p_drop=p_drop)
    return _positions(y, length), (saved, shape)


def restricted_attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Each key and value gets the sum of its gradients from all neighborhoods that it is in."""
    saved_attention, shape = saved
    length, _, size, _ = shape
    grad_q, grad_keys, grad_values = attention_backward(_blocks(grad_y, size), saved_attention)
    return _positions(grad_q, length), _sum_parts(grad_keys, *shape), _sum_parts(grad_values, *shape)


def _zeros(like: Array, *shape: int) -> Array:
    return get_array_module(like).zeros_like(like, shape=shape)


def _blocks(x: Array, size: int) -> Array:
    """(..., T, d) to (..., n, size, d), zeros at the end"""
    n = -(-x.shape[-2] // size)
    padded = _zeros(x, *x.shape[:-2], n * size, x.shape[-1])
    padded[..., : x.shape[-2], :] = x
    return padded.reshape(*x.shape[:-2], n, size, x.shape[-1])


def _positions(blocks: Array, length: int) -> Array:
    """Back from `_blocks`"""
    *stack, n, size, d = blocks.shape
    return blocks.reshape(*stack, n * size, d)[..., :length, :]


def _neighborhoods(x: Array, length: int, left: int, size: int, width: int) -> Array:
    """The rows ``left`` before each block and those up to ``width`` after it, (..., T, d) to (..., n, width, d)"""
    padded = _zeros(x, *x.shape[:-2], left + length + size, x.shape[-1])
    padded[..., left : left + length, :] = x
    blocks = _blocks(padded, size)[..., : -(-length // size) + 1, :, :]
    both = [blocks[..., :-1, :, :], blocks[..., 1:, : width - size, :]]
    return get_array_module(x).concatenate(both, axis=-2)


def _sum_parts(parts: Array, length: int, left: int, size: int, width: int) -> Array:
    """The transpose of `_neighborhoods`: a row of two parts gets the sum, (..., n, width, d) to (..., T, d)"""
    *stack, n, _, d = parts.shape
    blocks = _zeros(parts, *stack, n + 1, size, d)
    blocks[..., :-1, :, :] = parts[..., :size, :]
    blocks[..., 1:, : width - size, :] += parts[..., size:, :]
    return _positions(blocks, left + length)[..., left:, :]


restricted_attention = Rule("restricted_attention", restricted_attention_forward, restricted_attention_backward)


@dataclass(frozen=True)
class RestrictedAttentionConfig(ModelConfig):
    """The options of a Transformer, and the window of its self-attention."""

    attention_window: int = option(16, "r, positions on each side to which self-attention is restricted", low=1)


class RestrictedAttention(MultiHeadAttention):
    """Multi-head self-attention within a window; with the parameters of ``attention``.

    window: left and right, positions; (r, 0) is masked self-attention, and takes the place of the causal mask
    """

    def __init__(self, attention: MultiHeadAttention, window: tuple[int, int]):
        vars(self).update(vars(attention), window=window)

    def __call__(self, x: Tensor, memory: Tensor, mask: Array | None, dropout: DropoutMasks | None = None) -> Tensor:
        """x, memory, y: (B, T, d_model)   mask: (B, 1, 1, T), not read if the window looks back alone"""
        q, (k, v), length = self.queries(x), self.keys_values(memory), x.shape[1]
        mask = mask if self.window[1] else None
        if self.maps is not None:
            allowed = neighborhood(length, self.window, get_array_module(q.data))
            self.maps.append(attention_weights(q.data, k.data, mask=allowed if mask is None else allowed & mask)[0])
        window = tuple(min(side, length - 1) for side in self.window)  # a wider one costs more and changes nothing
        keep = keep_mask(dropout, "restricted_attention", (*q.shape[:-1], sum(window) + 1), self.p_drop, q)
        y = apply(restricted_attention, q, k, v, window=window, mask=mask, keep=keep, p_drop=self.p_drop)
        return self.w_o(functions.merge_heads(y))


def restrict(stack: Stack, window: tuple[int, int]) -> Stack:
    """``stack`` itself, with its layers' self-attention restricted"""
    for layer in stack.layers:
        layer.self_attention = RestrictedAttention(layer.self_attention, window)
    return stack


class WindowedCache(KeyValueCache):
    """As the ``cache`` that a model has started, for one new position at a time, which attends to ``window`` positions
    before it and itself. Its memory and the time of a step do not grow with the length."""

    def __init__(self, cache: KeyValueCache, window: int):
        vars(self).update(vars(cache), window=window)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the newest keys and values, (R, H, 1, d); returns the window's, (R, H, N, d), N <= window + 1."""
        pair = super().append(layer, key, value)
        self.layers[layer] = tuple(each.data[:, :, -self.window - 1 :] for each in pair)
        keys, values = map(Tensor, self.layers[layer])
        return keys, values


class RestrictedTransformer(Transformer):
    """A Transformer whose self-attention, of encoder and decoder, is restricted to ``model.attention_window``."""

    supports_half_precision = shares_prefixes = False

    def build(self, config: RestrictedAttentionConfig, init: Initializer) -> None:
        super().build(config, init)
        restrict(self.encoder, (config.attention_window, config.attention_window))
        restrict(self.decoder, (config.attention_window, 0))

    def start(self, src_ids: Array, max_length: int) -> WindowedCache:
        return WindowedCache(super().start(src_ids, max_length), self.config.attention_window)

    @classmethod
    def workload(cls, config: RestrictedAttentionConfig, src_length: int, tgt_length: int) -> Workload:
        work, r = super().workload(config, src_length, tgt_length), config.attention_window
        (n, S, _, _), (_, T, _, _), across = work.attentions
        nearby = (n, S, S, min(S, 2 * r + 1)), (n, T, T, min(T, r + 1))
        return work._replace(attentions=(*nearby, across))
