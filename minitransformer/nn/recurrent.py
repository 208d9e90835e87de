"""Recurrent layers: a bidirectional GRU encoder, and a GRU decoder with or without attention  [Luong et al. 2015]."""

import math

from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer, keep_mask
from minitransformer.ops.additive_attention import additive_attention_weights
from minitransformer.ops.attention import attention_weights


class GRU(Module):
    """One layer of gated recurrent units, over time or one step of it      [Cho et al. 2014]"""

    def __init__(self, d_in: int, d: int, init: Initializer):
        self.w_x = Parameter(init.xavier_side_by_side(d_in, d, d, d))
        self.w_h = Parameter(init.xavier_side_by_side(d, d, d, d))
        self.b_x, self.b_h = Parameter(init.zeros(3 * d)), Parameter(init.zeros(3 * d))

    def __call__(self, x: Tensor, h: Tensor, mask: Array | None = None, reverse: bool = False) -> Tensor:
        """x: (B, T, d_in)   h: initial state, (B, d)   mask: (B, T), True = a token   y: (B, T, d)"""
        return functions.gru(x, h, self.w_x, self.w_h, self.b_x, self.b_h, mask=mask, reverse=reverse)

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        """The next state.   x: (R, d_in)   h, y: (R, d)"""
        return functions.gru_cell(x, h, self.w_x, self.w_h, self.b_x, self.b_h)


class RecurrentEncoder(Module):
    """N bidirectional layers: half of each vector has read the sentence up to its position, half from there on."""

    def __init__(self, config: ModelConfig, init: Initializer):
        d, half = config.d_model, config.d_model // 2
        self.layers = [(GRU(d, half, init), GRU(d, half, init)) for _ in range(config.n_layers)]
        self.p_drop = config.p_drop

    def __call__(self, x: Tensor, mask: Array, dropout: DropoutMasks | None = None) -> Tensor:
        """x, y: (B, S, d_model)   mask: (B, S), True = a token"""
        for forwards, backwards in self.layers:
            x = apply_dropout(x, self.p_drop, dropout)
            zero = Tensor(get_array_module(x.data).zeros((len(x), x.shape[2] // 2), x.dtype))
            x = functions.concatenate([forwards(x, zero, mask), backwards(x, zero, mask, reverse=True)])
        return x


def last_state(memory: Tensor) -> Tensor:
    """The states in which the two directions of the encoder end, (B, S, d_model) to (B, d_model)"""
    half = memory.shape[2] // 2
    return functions.concatenate([memory[:, -1, :half], memory[:, 0, half:]])


class NoAttention(Module):
    """c_t = the encoder's last state, at every step      [Cho et al. 2014; Sutskever et al. 2014]"""

    def __init__(self, config: ModelConfig, init: Initializer):
        pass

    def source(self, memory: Tensor) -> tuple[Tensor, ...]:
        """What is computed once for each sentence from the encoder's output, (B, S, d_model)"""
        return (last_state(memory)[:, None],)

    def __call__(self, states: Tensor, mask: Array, last: Tensor) -> Tensor:
        """states, y: (B, T, d_model)   mask: (B, 1, S), True = a token   the rest: what `source` gave"""
        return last.broadcast_to(states.shape)


class DotAttention(Module):
    """c_t = sum_s softmax(h_t . memory_s) memory_s      [Luong et al. 2015, sec. 3.1, eq. 7: dot; no scale]"""

    def __init__(self, config: ModelConfig, init: Initializer):
        self.undo_scale = math.sqrt(config.d_model)  # of eq. 1

    def source(self, memory: Tensor) -> tuple[Tensor, ...]:
        return (memory,)

    def __call__(self, states: Tensor, mask: Array, memory: Tensor) -> Tensor:
        return functions.attention(states * self.undo_scale, memory, memory, mask=mask)

    def weights(self, states: Tensor, mask: Array, memory: Tensor) -> Array:
        """(B, T, S)"""
        return attention_weights(states.data * self.undo_scale, memory.data, mask=mask)[0]


class AdditiveAttention(Module):
    """c_t = sum_s softmax(w . tanh(h_t W_a + memory_s U_a)) memory_s      [Bahdanau et al. 2015, sec. A.1.2]"""

    def __init__(self, config: ModelConfig, init: Initializer):
        self.w_a = Parameter(init.xavier(config.d_model, config.d_model))
        self.u_a = Parameter(init.xavier(config.d_model, config.d_model))
        self.w = Parameter(init.xavier(config.d_model, 1)[:, 0])

    def source(self, memory: Tensor) -> tuple[Tensor, ...]:
        return functions.linear(memory, self.u_a), memory

    def __call__(self, states: Tensor, mask: Array, keys: Tensor, memory: Tensor) -> Tensor:
        return functions.additive_attention(functions.linear(states, self.w_a), keys, memory, self.w, mask=mask)

    def weights(self, states: Tensor, mask: Array, keys: Tensor, memory: Tensor) -> Array:
        """(B, T, S)"""
        queries = functions.linear(states, self.w_a)
        return additive_attention_weights(queries.data, keys.data, self.w.data, mask=mask)[0]


ATTENTIONS = {"none": NoAttention, "dot": DotAttention, "additive": AdditiveAttention}


class RecurrentDecoder(Module):
    """h_t = GRU(x_t, h_{t-1}) through N layers, which all start in the encoder's last state; x_t: the embedded target,
    y_t = tanh([c_t; h_t] W_c)      [Luong et al. 2015, eq. 5, without input feeding]

    In Bahdanau et al. attention comes before the recurrent step and feeds it. Here it comes after, for every score
    function, so that all steps of a layer are one call of `gru`.
    """

    def __init__(self, config: ModelConfig, init: Initializer):
        d = config.d_model
        self.layers = [GRU(d, d, init) for _ in range(config.n_layers)]
        self.attention = ATTENTIONS[config.attention](config, init)
        self.w_c = Parameter(init.xavier(2 * d, d))
        self.p_drop = config.p_drop

    def states(self, x: Tensor, memory: Tensor, dropout: DropoutMasks | None = None) -> Tensor:
        """The last layer's h_t.   x, y: (B, T, d_model)   memory: (B, S, d_model)"""
        start = last_state(memory)
        for layer in self.layers:
            x = layer(apply_dropout(x, self.p_drop, dropout), start)
        return x

    def outputs(
        self, states: Tensor, mask: Array, source: tuple[Tensor, ...], dropout: DropoutMasks | None = None
    ) -> Tensor:
        """states, y: (B, T, d_model)   mask: (B, 1, S)   source: what ``attention.source`` gave"""
        both = functions.concatenate([self.attention(states, mask, *source), states])  # (B, T, 2 * d_model)
        return apply_dropout(functions.tanh(functions.linear(both, self.w_c)), self.p_drop, dropout)


def apply_dropout(x: Tensor, p_drop: float, dropout: DropoutMasks | None) -> Tensor:
    """Dropout between layers, not from step to step      [Zaremba et al. 2014]"""
    return functions.dropout(x, keep=keep_mask(dropout, "dropout", x.shape, p_drop, x), p_drop=p_drop)
