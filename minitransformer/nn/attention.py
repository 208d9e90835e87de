"""Multi-head attention: h attentions side by side, each with projections of its own  [sec. 3.2.2]."""

from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array
from minitransformer.config import ModelConfig
from minitransformer.nn.layers import Linear
from minitransformer.nn.module import Module
from minitransformer.nn.randomness import DropoutMasks, Initializer, keep_mask
from minitransformer.ops.attention import attention_weights


class MultiHeadAttention(Module):
    """Concat(head_1, ..., head_h) W^O,   head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)      [sec. 3.2.2]

    The heads' matrices are stored side by side: ``w_q`` is W_1^Q ... W_h^Q, (d_model, h d_k); ``w_kv`` is all W_i^K,
    then all W_i^V, (d_model, h (d_k + d_v)), since keys and values are projections of the same input; ``w_o`` is W^O,
    (h d_v, d_model).

    Attributes:
        maps: a list to which each call appends its weights, (B, H, T, S), or ``None`` (the default) to record nothing.
    """

    def __init__(self, config: ModelConfig, init: Initializer):
        self.n_heads, self.d_k, self.d_v = config.n_heads, config.d_k, config.d_v
        n_keys, n_values, bias = self.n_heads * self.d_k, self.n_heads * self.d_v, config.attention_bias
        self.w_q = Linear(config.d_model, [n_keys], init, bias)
        self.w_kv = Linear(config.d_model, [n_keys, n_values], init, bias)
        self.w_o = Linear(n_values, [config.d_model], init, bias)
        self.p_drop = config.p_drop_attention
        self.maps: list[Array] | None = None

    def __call__(self, x: Tensor, memory: Tensor, mask: Array | None, dropout: DropoutMasks | None = None) -> Tensor:
        """Queries from x, (B, T, d_model); keys and values from memory, (B, S, d_model), x itself in self-attention."""
        return self.attend(self.queries(x), *self.keys_values(memory), mask, dropout)

    def queries(self, x: Tensor) -> Tensor:
        """Q W^Q of every head, (B, H, T, d_k)"""
        return functions.split_heads(self.w_q(x), n_heads=self.n_heads, widths=(self.d_k,))

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """K W^K and V W^V of every head, (B, H, S, d_k) and (B, H, S, d_v)"""
        return functions.split_heads(self.w_kv(memory), n_heads=self.n_heads, widths=(self.d_k, self.d_v))

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, dropout: DropoutMasks | None = None
    ) -> Tensor:
        """The attention of all heads, combined by W^O, (B, T, d_model)"""
        if self.maps is not None:
            self.maps.append(attention_weights(q.data, k.data, mask=mask)[0])
        keep = keep_mask(dropout, "attention", (*q.shape[:-1], k.shape[2]), self.p_drop, q)  # (B, H, T, S)
        heads = functions.attention(q, k, v, mask=mask, keep=keep, p_drop=self.p_drop)  # (B, H, T, d_v)
        return self.w_o(functions.merge_heads(heads))
