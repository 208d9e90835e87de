"""Planted faults of lesson 12: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_part, with_result

from minitransformer.generation import length_penalty
from solutions import lesson_12 as right


def beam_step_wrong_row(log_probs, next_log_probs, beam_size):
    totals = log_probs[:, None] + next_log_probs
    order = np.argsort(-totals, axis=None)[:beam_size]
    return order // len(totals), order % len(totals), totals.reshape(-1)[order]


def by_tokens(parents, tokens, totals):
    order = np.argsort(tokens + 0.1 * parents)
    return parents[order], tokens[order], totals[order]


def softmax_of(scores, axis=-1):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def cached_step_past_only(x_t, keys, values, w_q, w_k, w_v):
    weights = softmax_of(np.einsum("htd,hd->ht", keys, x_t @ w_q) / np.sqrt(keys.shape[2]))
    _, grown_keys, grown_values = right.cached_step(x_t, keys, values, w_q, w_k, w_v)
    return np.einsum("ht,htd->hd", weights, values), grown_keys, grown_values


def cached_step_with(weights_of):
    """``weights_of`` the scores, (H, t + 1), which are not divided yet, and the shape of the keys."""

    def step(x_t, keys, values, w_q, w_k, w_v):
        _, keys, values = right.cached_step(x_t, keys, values, w_q, w_k, w_v)
        weights = weights_of(np.einsum("htd,hd->ht", keys, x_t @ w_q), keys.shape)
        return np.einsum("ht,htd->hd", weights, values), keys, values

    return step


def greedy_twice(step, begin, end, limit):
    tokens, token, best = [], begin, 0.0
    while len(tokens) < limit:
        best += step(token).max()
        token = int(step(token).argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens


def greedy_of_prefix(step, begin, end, limit):
    tokens = [begin]
    while tokens[-1] != end and len(tokens) <= limit:
        tokens.append(int(np.argmax(step(tokens))))
    return tokens[1:]


def greedy_from_begin(step, begin, end, limit):
    tokens = []
    for _ in range(limit):
        best = int(step(begin).argmax())
        if best == end:
            return tokens
        tokens.append(best)
    return tokens


def greedy_with_end(step, begin, end, limit):
    tokens = [begin]
    while tokens[-1] != end and len(tokens) <= limit:
        tokens.append(int(step(tokens[-1]).argmax()))
    return tokens[1:]


def best_of_all(after, limit, text=""):
    probabilities = after(text)
    outputs = [(np.log(probabilities["."]), text)]
    for letter in set(probabilities) - {"."} if len(text) < limit else ():
        output, log_prob = best_of_all(after, limit, text + letter)
        outputs.append((log_prob + np.log(probabilities[letter]), output))
    return max(outputs)[::-1]


def greedy_output(after, limit):
    text, log_prob = "", 0.0
    while True:
        probabilities = after(text)
        letter = max(probabilities, key=probabilities.get) if len(text) < limit else "."
        log_prob += np.log(probabilities[letter])
        if letter == ".":
            return text, log_prob
        text += letter


def output_found_first(after, limit):
    waiting = [(0.0, "")]
    while True:
        log_prob, text = max(waiting)
        waiting.remove((log_prob, text))
        for letter, p in after(text).items():
            if letter == ".":
                return text, log_prob + np.log(p)
            waiting.append((log_prob + np.log(p), text + letter))


def output_by_last_letter(after, limit):
    best, found = {"": (0.0, "")}, []
    for _ in range(limit + 1):
        extended = [
            (old + np.log(p), text + letter) for old, text in best.values() for letter, p in after(text).items()
        ]
        best = {
            text[-1]: (log_prob, text) for log_prob, text in sorted(extended)
        }  # the last of each letter is its best
        found.append(best.pop("."))
    log_prob, text = max(found)
    return text[:-1], log_prob


def output_without_p_of_end(after, limit):
    text, log_prob = right.best_output(after, limit)
    return text, log_prob - np.log(after(text)["."])


def output_for_ever(after, limit):
    text, letters = "", after("")
    while len(text) >= 0:
        text = text[-3:] + max(letters)


def more_flops(added):
    """``added`` FLOPs are counted too many with the cache."""
    return with_part(right.decoding_flops, 1, lambda *shape: right.decoding_flops(*shape)[1] + added(*shape))


FAULTS = {
    "score": {
        "EOS is not counted": lambda log_prob, n_words, alpha: log_prob / length_penalty(n_words, alpha),
        "multiplied by lp(Y)": lambda log_prob, n_words, alpha: log_prob * length_penalty(n_words + 1, alpha),
        "The 5 and the 6 are missing": lambda log_prob, n_words, alpha: log_prob * (1 + n_words) ** -alpha,
    },
    "cache_bytes": {
        "both are kept": with_result(right.cache_bytes, lambda n_bytes: n_bytes // 2),
        "The source is missing": with_inputs(right.cache_bytes, src_length=lambda src_length: 0),
        "The lengths are multiplied": lambda n_layers, d_model, n_sentences, beam_size, tgt_length, src_length: (
            n_layers * n_sentences * beam_size * tgt_length * src_length * d_model * 8
        ),
        "share its keys and values": lambda n_layers, d_model, n_sentences, beam_size, tgt_length, src_length: (
            n_layers * n_sentences * beam_size * (tgt_length + src_length) * d_model * 8
        ),
        "beam_size is not used": with_inputs(right.cache_bytes, beam_size=lambda beam_size: 1),
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
    "greedy": {
        "step is called twice": greedy_twice,
        "step takes one token": greedy_of_prefix,
        "Every step is given begin": greedy_from_begin,
        "The result holds end": greedy_with_end,
        "The result holds begin": lambda step, begin, *rest: [begin] + right.greedy(step, begin, *rest),
        "counts against the limit": with_inputs(right.greedy, limit=lambda limit: limit - 1),
    },
    "beam_step": {
        "Each partial hypothesis gives one survivor": with_inputs(
            right.beam_step, next_log_probs=lambda p: np.where(p == p.max(axis=1, keepdims=True), p, -np.inf)
        ),
        "of the prefix is not added": with_inputs(right.beam_step, log_probs=np.zeros_like),
        "a row has vocab_size entries": beam_step_wrong_row,
        "holds indices into the flattened table": with_part(
            right.beam_step,
            0,
            lambda log_probs, next_log_probs, k: np.argsort(-(log_probs[:, None] + next_log_probs), axis=None)[:k],
        ),
        "not best first": with_result(right.beam_step, by_tokens),
        "right, but not best first": with_result(right.beam_step, lambda *parts: tuple(part[::-1] for part in parts)),
    },
    "cached_step": {
        "does not attend to itself": cached_step_past_only,
        "come back as they were": with_result(
            right.cached_step, lambda y, keys, values: (y, keys[:, :-1], values[:, :-1])
        ),
        "The softmax is missing": cached_step_with(lambda scores, shape: scores / np.sqrt(shape[-1])),
        "The softmax runs over the heads": cached_step_with(
            lambda scores, shape: softmax_of(scores / np.sqrt(shape[-1]), axis=0)
        ),
        "root of the number of positions": cached_step_with(
            lambda scores, shape: softmax_of(scores / np.sqrt(shape[1]))
        ),
        "must have the shape (1, 2), got (2,)": with_result(
            right.cached_step, lambda y, keys, values: (y.reshape(-1), keys, values)
        ),
        "scale 1 / sqrt(d_k) is missing": cached_step_with(lambda scores, shape: softmax_of(scores)),
    },
    "best_output": {
        "This is greedy search": greedy_output,
        "The first output that is found": output_found_first,
        "looks further back": output_by_last_letter,
        "holds its end": with_result(right.best_output, lambda text, log_prob: (text + ".", log_prob)),
        "counts against the limit": with_inputs(right.best_output, limit=lambda limit: limit - 1),
        "give its logarithm": with_result(right.best_output, lambda text, log_prob: (text, np.exp(log_prob))),
        "The end is missing in ln P": output_without_p_of_end,
        "and the function returns": with_result(right.best_output, lambda text, log_prob: (text, log_prob / np.log(2))),
        "which is more": lambda after, limit: ("a", np.log(after("")["a"]) + np.log(after("a")["."])),
        "may stand before the end": with_inputs(right.best_output, limit=lambda limit: limit + 3),
        "must be a str": lambda after, limit: ([4, 5], -1.0),
        "had not come back after": output_for_ever,
        "too much work": best_of_all,
    },
}
