"""Solutions of lesson 9, the whole model."""

import numpy as np


def shift(tokens, begin, end):
    return np.concatenate([[begin], tokens]), np.concatenate([tokens, [end]])


def parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size):
    attention = 2 * d_model * n_heads * d_k + 2 * d_model * n_heads * d_v  # W^Q and W^K, W^V and W^O
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return n_layers * (encoder_layer + decoder_layer) + vocab_size * d_model


def decoder_layer(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    x = norms[0](x + self_attention(x, x, causal))
    x = norms[1](x + cross_attention(x, memory, None))
    return norms[2](x + feed_forward(x))


def leaks(logits_of, ids, vocab_size):
    before = logits_of(ids)  # (T, V)
    found = np.zeros((len(ids), len(ids)), dtype=bool)
    for place in range(len(ids)):
        changed = ids.copy()
        changed[place] = (ids[place] + 1) % vocab_size  # another token, whatever stood there
        found[:place, place] = (logits_of(changed) != before).any(axis=-1)[:place]
    return found


def decoding_flops(n_src, n_tgt, d_model, d_ff, n_heads, d_k):
    wide = n_heads * d_k
    # One new position: Q, K, V and O of self-attention, Q and O of cross-attention, the feed-forward layer.
    position = 2 * (6 * d_model * wide + 2 * d_model * d_ff) + 4 * n_src * wide  # and attention to the memory
    memory = 4 * n_src * d_model * wide  # keys and values of the source
    without = sum(t * position + memory + 4 * t * t * wide for t in range(1, n_tgt + 1))
    cached = sum(position + 4 * t * wide for t in range(1, n_tgt + 1)) + memory
    return without, cached
