"""Planted faults of lesson 9: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_part, with_result

from solutions import lesson_09 as right


def layer_first_source(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    first = norms[0](cross_attention(x, memory, None) + x)
    second = norms[1](self_attention(first, first, causal) + first)
    return norms[2](feed_forward(second) + second)


def reads_x_unmasked(attention):
    return lambda x, memory, mask: attention(x, x, None)


def more_flops(added):
    """``added`` FLOPs are counted too many with the cache."""
    return with_part(right.decoding_flops, 1, lambda *shape: right.decoding_flops(*shape)[1] + added(*shape))


FAULTS = {
    "shift": {
        "not shifted": lambda tokens, begin, end: (np.array([begin, *tokens]), np.array([begin, *tokens])),
        "exchanged": with_result(right.shift, lambda tgt_in, tgt_out: (tgt_out, tgt_in)),
        "end mark is missing": with_result(right.shift, lambda tgt_in, tgt_out: (tgt_in[:-1], tgt_out[:-1])),
    },
    "parameters": {
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
    "decoder_layer": {
        "The future leaks": with_inputs(right.decoder_layer, self_attention=reads_x_unmasked),
        "Cross-attention reads x twice": with_inputs(right.decoder_layer, cross_attention=reads_x_unmasked),
        "Cross-attention stands before self-attention": layer_first_source,
        "residual sums are missing": lambda x, memory, causal, self_attention, cross_attention, feed_forward, norms: (
            norms[2](feed_forward(norms[1](cross_attention(norms[0](self_attention(x, x, causal)), memory, None))))
        ),
    },
    "leaks": {
        "It is transposed": with_result(right.leaks, lambda found: found.swapaxes(0, 1)),
        "Leaks of a millionth are missed": with_inputs(right.leaks, logits_of=lambda f: lambda ids: f(ids).round(3)),
        "its own token": with_result(right.leaks, lambda found: found | np.eye(len(found), dtype=bool)),
        "leaks from position 3 to 1": with_result(right.leaks, lambda found: found & ~np.triu(found, k=2)),
    },
    "decoding_flops": {
        "half of the FLOPs": with_result(right.decoding_flops, lambda without, cached: (without // 2, cached // 2)),
        "they are made once": more_flops(
            lambda n_src, n_tgt, d_model, d_ff, n_heads, d_k: (n_tgt - 1) * 4 * n_src * d_model * n_heads * d_k
        ),
        "here it meets all n_tgt": more_flops(
            lambda n_src, n_tgt, d_model, d_ff, n_heads, d_k: 4 * n_heads * d_k * n_tgt * (n_tgt - 1) // 2
        ),
    },
}
