"""Solutions of lesson 9, the whole model."""

import numpy as np

from minitransformer.ops.attention import attention_backward, attention_forward


def shift(tokens, begin, end):
    return np.concatenate([[begin], tokens]), np.concatenate([tokens, [end]])


def parameters(n_layers, d_model, d_ff, n_heads, d_k, d_v, vocab_size):
    attention = 2 * d_model * n_heads * d_k + 2 * d_model * n_heads * d_v  # W^Q and W^K, W^V and W^O
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return n_layers * (encoder_layer + decoder_layer) + vocab_size * d_model


def encoder_layer(x, mask, self_attention, feed_forward, norms):
    x = norms[0](x + self_attention(x, x, mask))
    return norms[1](x + feed_forward(x))


def decoder_layer(x, memory, causal, self_attention, cross_attention, feed_forward, norms):
    x = norms[0](x + self_attention(x, x, causal))
    x = norms[1](x + cross_attention(x, memory, None))
    return norms[2](x + feed_forward(x))


def cross_attention_backward(grad_y, x, memory, w_q, w_k, w_v):
    _, saved = attention_forward(x @ w_q, memory @ w_k, memory @ w_v)
    grad_q, grad_k, grad_v = attention_backward(grad_y, saved)
    grad_x = grad_q @ w_q.T
    grad_memory = grad_k @ w_k.T + grad_v @ w_v.T  # read twice
    return grad_x, grad_memory, x.T @ grad_q, memory.T @ grad_k, memory.T @ grad_v


def leaks(logits_of, ids, vocab_size):
    before = logits_of(ids)  # (T, V)
    found = np.zeros((len(ids), len(ids)), dtype=bool)
    for place in range(len(ids)):
        changed = ids.copy()
        changed[place] = (ids[place] + 1) % vocab_size  # another token, whatever stood there
        found[:place, place] = (logits_of(changed) != before).any(axis=-1)[:place]
    return found
