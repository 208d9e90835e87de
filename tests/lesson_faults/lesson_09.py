"""Planted faults of lesson 9: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_09 as right


def shift_missing(tokens, begin, end):
    tgt_in = np.array([begin, *tokens])
    return tgt_in, tgt_in.copy()


def shift_without_end(tokens, begin, end):
    tgt_in, tgt_out = right.shift(tokens, begin, end)
    return tgt_in[:-1], tgt_out[:-1]


def parameters_untied(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size):
    return right.parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, 3 * vocab_size)


def parameters_of_two_encoders(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size):
    total = right.parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size)
    return total - n_layers * 2 * d_model * n_heads * (d_k + d_v)


def parameters_of_equal_heads(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size):
    each = d_model // n_heads
    return right.parameters(n_layers, d_model, d_ff, n_heads, each, each, vocab_size)


def layer_leaks(x, memory, causal, self_attention, *rest):
    return right.decoder_layer(x, memory, causal, lambda x, memory, mask: self_attention(x, x, None), *rest)


def layer_without_source(x, memory, causal, self_attention, cross_attention, *rest):
    return right.decoder_layer(
        x, memory, causal, self_attention, lambda x, memory, mask: cross_attention(x, x, None), *rest
    )


def layer_first_source(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    first = norms[0](cross_attention(x, memory, None) + x)
    second = norms[1](self_attention(first, first, causal) + first)
    return norms[2](feed_forward(second) + second)


def layer_without_sums(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    seen = norms[1](cross_attention(norms[0](self_attention(x, x, causal)), memory, None))
    return norms[2](feed_forward(seen))


def leaks_from_the_next_alone(logits_of, ids, vocab_size):
    found = right.leaks(logits_of, ids, vocab_size)
    return found & np.eye(len(ids), k=1, dtype=bool)


def flops_memory_again(n_src, n_tgt, d_model, d_ff, n_heads, d_k):
    without, cached = right.decoding_flops(n_src, n_tgt, d_model, d_ff, n_heads, d_k)
    return without, cached + (n_tgt - 1) * 4 * n_src * d_model * n_heads * d_k


def flops_all_keys(n_src, n_tgt, d_model, d_ff, n_heads, d_k):
    without, cached = right.decoding_flops(n_src, n_tgt, d_model, d_ff, n_heads, d_k)
    return without, cached + 4 * n_heads * d_k * n_tgt * (n_tgt - 1) // 2


FAULTS = {
    "shift": [
        (shift_missing, "not shifted"),
        (lambda tokens, begin, end: right.shift(tokens, begin, end)[::-1], "exchanged"),
        (shift_without_end, "end mark is missing"),
    ],
    "parameters": [
        (parameters_untied, "Three matrices are counted"),
        (parameters_of_two_encoders, "A decoder layer has two attentions"),
        (
            lambda n_layers, d_model, *rest: right.parameters(n_layers, d_model, *rest) - 10 * n_layers * d_model,
            "The norms are missing",
        ),
        (parameters_of_equal_heads, "where d_k and d_v belong"),
    ],
    "decoder_layer": [
        (layer_leaks, "The future leaks"),
        (layer_without_source, "Cross-attention reads x twice"),
        (layer_first_source, "Cross-attention stands before self-attention"),
        (layer_without_sums, "residual sums are missing"),
    ],
    "leaks": [
        (lambda logits_of, ids, vocab_size: right.leaks(logits_of, ids, vocab_size).swapaxes(0, 1), "It is transposed"),
        (
            lambda logits_of, ids, vocab_size: right.leaks(lambda ids: logits_of(ids).round(3), ids, vocab_size),
            "Leaks of a millionth are missed",
        ),
        (
            lambda logits_of, ids, vocab_size: right.leaks(logits_of, ids, vocab_size) | np.eye(len(ids), dtype=bool),
            "its own token",
        ),
        (leaks_from_the_next_alone, "leaks from position 3 to 1"),
    ],
    "decoding_flops": [
        (lambda *shape: tuple(flops // 2 for flops in right.decoding_flops(*shape)), "half of the FLOPs"),
        (flops_memory_again, "they are made once"),
        (flops_all_keys, "here it meets all n_tgt"),
    ],
}
