"""Solutions of lesson 12, decoding."""

import heapq
import math

import numpy as np


def score(log_prob, n_words, alpha):
    length = n_words + 1  # EOS counts
    return log_prob / ((5 + length) / 6) ** alpha


def cache_bytes(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    numbers_per_position = 2 * d_model  # a key and a value; the heads share d_model
    positions = n_sentences * (beam_size * tgt_length + src_length)  # hypotheses of a sentence share its source
    return 4 * n_layers * positions * numbers_per_position  # base, 32 sentences, beam 4, 150 and 100: 551 MB


def decoding_flops(n_src, n_tgt, d_model, d_ff, n_heads, d_k):
    wide = n_heads * d_k
    # One new position: Q, K, V and O of self-attention, Q and O of cross-attention, the feed-forward layer.
    position = 2 * (6 * d_model * wide + 2 * d_model * d_ff) + 4 * n_src * wide  # and attention to the memory
    memory = 4 * n_src * d_model * wide  # keys and values of the source
    without = sum(t * position + memory + 4 * t * t * wide for t in range(1, n_tgt + 1))
    cached = sum(position + 4 * t * wide for t in range(1, n_tgt + 1)) + memory
    return without, cached


def greedy(step, begin, end, limit):
    tokens, token = [], begin
    while len(tokens) < limit:
        token = int(np.argmax(step(token)))
        if token == end:
            break
        tokens.append(token)
    return tokens


def beam_step(log_probs, next_log_probs, beam_size):
    totals = (log_probs[:, None] + next_log_probs).reshape(-1)  # (R * V,)
    best = np.argsort(-totals, kind="stable")[:beam_size]
    vocab_size = next_log_probs.shape[1]
    return best // vocab_size, best % vocab_size, totals[best]


def cached_step(x_t, keys, values, w_q, w_k, w_v):
    # (d_model,) @ (H, d_model, d_k) is (H, d_k): a key of every head
    keys = np.concatenate([keys, (x_t @ w_k)[:, None]], axis=1)  # (H, t + 1, d_k)
    values = np.concatenate([values, (x_t @ w_v)[:, None]], axis=1)
    scores = keys @ (x_t @ w_q)[..., None] / math.sqrt(keys.shape[-1])  # (H, t + 1, 1)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=1, keepdims=True)
    return (weights * values).sum(axis=1), keys, values


def best_output(after, limit):
    """Always extend the most probable prefix. The first output that comes out of the heap cannot be beaten."""
    heap = [(0.0, "")]  # (-log-probability, text)
    while True:
        cost, text = heapq.heappop(heap)
        if text.endswith("."):
            return text[:-1], -cost
        for letter, probability in after(text).items():
            if probability > 0 and (letter == "." or len(text) < limit):
                heapq.heappush(heap, (cost - math.log(probability), text + letter))
