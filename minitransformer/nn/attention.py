"""Multi-head attention: h attentions side by side, each with projections of its own  [sec. 3.2.2]."""

from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer, keep_mask
from minitransformer.ops.attention import attention_weights
from minitransformer.ops.restricted_attention import neighbourhood


class MultiHeadAttention(Module):
    """Concat(head_1, ..., head_h) W^O,   head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)      [sec. 3.2.2]

    The heads' matrices are stored side by side: ``w_q`` is W_1^Q ... W_h^Q, (d_model, h d_k); ``w_kv`` is all W_i^K,
    then all W_i^V, (d_model, h (d_k + d_v)), since keys and values are projections of the same input; ``w_o`` is W^O,
    (h d_v, d_model).

    window: left and right, of self-attention that is restricted to so many positions on each side      [sec. 4]

    Attributes:
        maps: a list to which each call appends its weights, (B, H, T, S), or ``None`` (the default) to record nothing.
    """

    def __init__(self, config: ModelConfig, init: Initializer, window: tuple[int, int] | None = None):
        d_model, self.n_heads, self.d_k, self.d_v = config.d_model, config.n_heads, config.d_k, config.d_v
        self.w_q = Parameter(init.xavier(d_model, self.n_heads * self.d_k))
        # Xavier for W^K and W^V separately: drawn as one packed matrix the limit would be too small for both.
        self.w_kv = Parameter(init.xavier_side_by_side(d_model, self.n_heads * self.d_k, self.n_heads * self.d_v))
        self.w_o = Parameter(init.xavier(self.n_heads * self.d_v, d_model))
        self.b_q = self.b_kv = self.b_o = None
        if config.attention_bias:
            self.b_q = Parameter(init.zeros(self.n_heads * self.d_k))
            self.b_kv = Parameter(init.zeros(self.n_heads * (self.d_k + self.d_v)))
            self.b_o = Parameter(init.zeros(d_model))
        self.p_drop, self.window = config.p_drop_attention, window
        self.maps: list[Array] | None = None

    def __call__(self, x: Tensor, memory: Tensor, mask: Array | None, dropout: DropoutMasks | None = None) -> Tensor:
        """Queries from x, (B, T, d_model); keys and values from memory, (B, S, d_model), x itself in self-attention."""
        attend = self.attend if self.window is None else self._attend_nearby
        return attend(self.queries(x), *self.keys_values(memory), mask, dropout)

    def queries(self, x: Tensor) -> Tensor:
        """Q W^Q of every head, (B, H, T, d_k)"""
        return functions.split_heads(functions.linear(x, self.w_q, self.b_q), n_heads=self.n_heads, widths=(self.d_k,))

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """K W^K and V W^V of every head, (B, H, S, d_k) and (B, H, S, d_v)"""
        packed = functions.linear(memory, self.w_kv, self.b_kv)  # (B, S, H * (d_k + d_v))
        return functions.split_heads(packed, n_heads=self.n_heads, widths=(self.d_k, self.d_v))

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, dropout: DropoutMasks | None = None
    ) -> Tensor:
        """The attention of all heads, combined by W^O, (B, T, d_model)"""
        if self.maps is not None:
            self.maps.append(attention_weights(q.data, k.data, mask=mask)[0])
        keep = keep_mask(dropout, "attention", (*q.shape[:-1], k.shape[2]), self.p_drop, q)  # (B, H, T, S)
        return self._combined(functions.attention(q, k, v, mask=mask, keep=keep, p_drop=self.p_drop))

    def _attend_nearby(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, dropout: DropoutMasks | None = None
    ) -> Tensor:
        """As `attend`, of a sentence to itself within the window.   mask: (B, 1, 1, T) or None"""
        if self.maps is not None:
            allowed = neighbourhood(q.shape[2], self.window, get_array_module(q.data))
            self.maps.append(attention_weights(q.data, k.data, mask=allowed if mask is None else allowed & mask)[0])
        window = tuple(min(side, q.shape[2] - 1) for side in self.window)  # a wider one costs more and changes nothing
        keep = keep_mask(dropout, "restricted_attention", (*q.shape[:-1], sum(window) + 1), self.p_drop, q)
        options = {"window": window, "mask": mask, "keep": keep, "p_drop": self.p_drop}
        return self._combined(functions.restricted_attention(q, k, v, **options))

    def _combined(self, heads: Tensor) -> Tensor:
        """Concat(heads) W^O, (B, H, T, d_v) to (B, T, d_model)"""
        return functions.linear(functions.merge_heads(heads), self.w_o, self.b_o)
