"""Planted faults of lesson 9: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from minitransformer.ops.attention import attention_weights
from solutions import lesson_09 as right


def layer_first_source(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    first = norms[0](cross_attention(x, memory, None) + x)
    second = norms[1](self_attention(first, first, causal) + first)
    return norms[2](feed_forward(second) + second)


def reads_x_unmasked(attention):
    return lambda x, memory, mask: attention(x, x, None)


def leaks_beyond(tolerance):
    def found(logits_of, ids, vocab_size):
        marked = np.zeros((ids.size, ids.size), dtype=bool)
        for t in range(ids.size):
            other = np.where(np.arange(ids.size) == t, (ids + 2) % vocab_size, ids)
            marked[:t, t] = (np.abs(logits_of(other) - logits_of(ids)) > tolerance).any(axis=1)[:t]
        return marked

    return found


def without_mask(attention):
    return lambda x, memory, mask: attention(x, memory, np.ones((len(x), len(memory)), dtype=bool))


def layer_of_one_sum(x, mask, self_attention, feed_forward, norms):
    seen = norms[0](self_attention(x, x, mask) + x)
    return norms[1](feed_forward(seen) + x)


def layer_that_crosses(crossing):
    """A decoder layer whose middle sub-layer is ``crossing(attention, x, memory, causal)``."""

    def layer(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
        y = norms[0](self_attention(x, x, causal) + x)
        z = norms[1](crossing(cross_attention, y, memory, causal) + y)
        return norms[2](feed_forward(z) + z)

    return layer


def crossing_gradients(change):
    """The right gradients, but for those of x and the memory: ``change(grad_x, by way of the keys, of the values)``."""

    def wrong(grad_y, x, memory, w_q, w_k, w_v):
        grad_x, grad_memory, *grad_w = right.cross_attention_backward(grad_y, x, memory, w_q, w_k, w_v)
        weights, _ = attention_weights(x @ w_q, memory @ w_k)
        by_values = weights.T @ grad_y @ w_v.T
        return *change(grad_x, grad_memory - by_values, by_values), *grad_w

    return wrong


FAULTS = {
    "shift": {
        "not shifted": lambda tokens, begin, end: (np.array([begin, *tokens]), np.array([begin, *tokens])),
        "exchanged": with_result(right.shift, lambda tgt_in, tgt_out: (tgt_out, tgt_in)),
        "end mark is missing": with_result(right.shift, lambda tgt_in, tgt_out: (tgt_in[:-1], tgt_out[:-1])),
    },
    "parameters": {
        "Attention has no biases": lambda n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size: (
            right.parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size)
            + n_layers * 3 * (n_heads * d_k + n_heads * d_k + n_heads * d_v + d_model)
        ),
        "Three matrices are counted": with_inputs(right.parameters, vocab_size=lambda vocab_size: 3 * vocab_size),
        "A decoder layer has two attentions": lambda n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size: (
            right.parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size)
            - n_layers * 2 * d_model * n_heads * (d_k + d_v)
        ),
        "The norms are missing": lambda n_layers, d, *rest: right.parameters(n_layers, d, *rest) - 10 * n_layers * d,
        "where d_k and d_v belong": lambda n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size: right.parameters(
            n_layers, d_model, d_ff, n_heads, d_model // n_heads, d_model // n_heads, vocab_size
        ),
    },
    "encoder_layer": {
        "The mask is not used": with_inputs(right.encoder_layer, self_attention=without_mask),
        "turned around": with_inputs(right.encoder_layer, mask=np.logical_not),
        "layer's input in it": layer_of_one_sum,
        "One norm serves both": with_inputs(right.encoder_layer, norms=lambda norms: norms[:1] * 2),
        "residual sums are missing": lambda x, mask, self_attention, feed_forward, norms: norms[1](
            feed_forward(norms[0](self_attention(x, x, mask)))
        ),
    },
    "decoder_layer": {
        "Cross-attention has the causal mask": layer_that_crosses(
            lambda attend, y, memory, causal: attend(y, memory, causal)
        ),
        "arguments of cross-attention are exchanged": layer_that_crosses(
            lambda attend, y, memory, causal: attend(memory, y, None)
        ),
        "with two sources more": layer_that_crosses(
            lambda attend, y, memory, causal: attend(y, memory[: len(y)], None)
        ),
        "The future leaks": with_inputs(right.decoder_layer, self_attention=reads_x_unmasked),
        "Cross-attention reads x twice": with_inputs(right.decoder_layer, cross_attention=reads_x_unmasked),
        "Cross-attention stands before self-attention": layer_first_source,
        "residual sums are missing": lambda x, memory, causal, self_attention, cross_attention, feed_forward, norms: (
            norms[2](feed_forward(norms[1](cross_attention(norms[0](self_attention(x, x, causal)), memory, None))))
        ),
    },
    "cross_attention_backward": {
        "the keys alone": crossing_gradients(lambda x, keys, values: (x, keys)),
        "the values alone": crossing_gradients(lambda x, keys, values: (x, values)),
        "are exchanged": crossing_gradients(lambda x, keys, values: (keys + values, x)),
        "All three parts arrive at x": crossing_gradients(lambda x, keys, values: (x + keys + values, 0.0 * x)),
        "with one source more": lambda grad_y, x, memory, *matrices: right.cross_attention_backward(
            grad_y, x, memory[: len(x)], *matrices
        ),
    },
    "leaks": {
        "It is transposed": with_result(right.leaks, lambda found: found.swapaxes(0, 1)),
        "Small leaks are missed": leaks_beyond(1e-6),
        "compare with 0": with_inputs(right.leaks, logits_of=lambda f: lambda ids: f(ids).round(8)),
        "its own token": with_result(right.leaks, lambda found: found | np.eye(len(found), dtype=bool)),
        "leaks from position 3 to 1": with_result(right.leaks, lambda found: found & ~np.triu(found, k=2)),
    },
}
