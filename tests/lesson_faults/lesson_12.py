"""Planted faults of lesson 12: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from minitransformer.generation import length_penalty
from solutions import lesson_12 as right


def score_without_eos(log_prob, n_words, alpha):
    return log_prob / length_penalty(n_words, alpha)


def score_multiplied(log_prob, n_words, alpha):
    return log_prob * length_penalty(n_words + 1, alpha)


def score_per_token(log_prob, n_words, alpha):
    return log_prob * (1 + n_words) ** -alpha


def bytes_of_keys(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    return sum(n_sentences * (beam_size * tgt_length + src_length) * d_model * 4 for _ in range(n_layers))


def bytes_of_the_past(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    return n_layers * n_sentences * beam_size * tgt_length * d_model * 8


def bytes_of_copied_sources(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    return n_layers * n_sentences * beam_size * (tgt_length + src_length) * d_model * 8


def bytes_of_scores(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    return n_layers * n_sentences * beam_size * tgt_length * src_length * d_model * 8


def bytes_of_one_hypothesis(n_layers, d_model, n_sentences, beam_size, tgt_length, src_length):
    return n_layers * n_sentences * (tgt_length + src_length) * d_model * 8


def beam_step_of_each(log_probs, next_log_probs, beam_size):
    tokens = next_log_probs.argmax(axis=1)
    totals = log_probs + next_log_probs.max(axis=1)
    order = np.argsort(-totals)[:beam_size]
    return order, tokens[order], totals[order]


def beam_step_without_log_probs(log_probs, next_log_probs, beam_size):
    return right.beam_step(np.zeros_like(log_probs), next_log_probs, beam_size)


def beam_step_wrong_row(log_probs, next_log_probs, beam_size):
    totals = log_probs[:, None] + next_log_probs
    order = np.argsort(-totals, axis=None)[:beam_size]
    return order // len(totals), order % len(totals), totals.reshape(-1)[order]


def beam_step_of_indices(log_probs, next_log_probs, beam_size):
    _, tokens, totals = right.beam_step(log_probs, next_log_probs, beam_size)
    return np.argsort(-(log_probs[:, None] + next_log_probs), axis=None)[:beam_size], tokens, totals


def beam_step_in_lists(log_probs, next_log_probs, beam_size):
    return tuple(part.tolist() for part in right.beam_step(log_probs, next_log_probs, beam_size))


def beam_step_by_tokens(log_probs, next_log_probs, beam_size):
    parents, tokens, totals = right.beam_step(log_probs, next_log_probs, beam_size)
    order = np.argsort(tokens + 0.1 * parents)
    return parents[order], tokens[order], totals[order]


def beam_step_unsorted(log_probs, next_log_probs, beam_size):
    totals = (log_probs[:, None] + next_log_probs).reshape(-1)
    order = np.argsort(totals)[-beam_size:]
    return order // next_log_probs.shape[1], order % next_log_probs.shape[1], totals[order]


def cached_step_past_only(x_t, keys, values, w_q, w_k, w_v):
    exponentials = np.exp(keys @ (x_t @ w_q) / np.sqrt(keys.shape[1]))
    y = exponentials / exponentials.sum() @ values
    return y, np.vstack([keys, x_t @ w_k]), np.vstack([values, x_t @ w_v])


def cached_step_not_grown(x_t, keys, values, w_q, w_k, w_v):
    return right.cached_step(x_t, keys, values, w_q, w_k, w_v)[0], keys.copy(), values.copy()


def cached_step_of_scores(x_t, keys, values, w_q, w_k, w_v):
    _, keys, values = right.cached_step(x_t, keys, values, w_q, w_k, w_v)
    return keys @ (x_t @ w_q) / np.sqrt(keys.shape[1]) @ values, keys, values


def cached_step_of_a_row(x_t, keys, values, w_q, w_k, w_v):
    y, keys, values = right.cached_step(x_t, keys, values, w_q, w_k, w_v)
    return y[None], keys, values


def cached_step_unscaled(x_t, keys, values, w_q, w_k, w_v):
    keys, values = np.vstack([keys, x_t @ w_k]), np.vstack([values, x_t @ w_v])
    exponentials = np.exp(keys @ (x_t @ w_q))
    return exponentials / exponentials.sum() @ values, keys, values


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
    best = {"": (0.0, "")}  # of each last letter
    found = []
    for _ in range(limit + 1):
        extended = {}
        for log_prob, text in best.values():
            for letter, p in after(text).items():
                each = (log_prob + np.log(p), text + letter)
                extended[letter] = max(each, extended.get(letter, each))
        found.append(extended.pop("."))
        best = extended
    log_prob, text = max(found)
    return text[:-1], log_prob


def output_with_its_end(after, limit):
    text, log_prob = right.best_output(after, limit)
    return text + ".", log_prob


def output_one_too_short(after, limit):
    return right.best_output(after, limit - 1)


def output_as_probability(after, limit):
    text, log_prob = right.best_output(after, limit)
    return text, np.exp(log_prob)


def output_without_p_of_end(after, limit):
    text, _ = right.best_output(after, limit)
    return text, sum(np.log(after(text[:i])[letter]) for i, letter in enumerate(text))


def output_in_bits(after, limit):
    text, log_prob = right.best_output(after, limit)
    return text, log_prob / np.log(2)


def output_is_always_a(after, limit):
    return "a", np.log(after("")["a"]) + np.log(after("a")["."])


def output_too_long(after, limit):
    return right.best_output(after, limit + 3)


def output_of_ids(after, limit):
    return [4, 5], -1.0


def output_for_ever(after, limit):
    text = ""
    while len(text) >= 0:
        text = text[-3:] + max(after(text))


FAULTS = {
    "score": [
        (score_without_eos, "EOS is not counted"),
        (score_multiplied, "multiplied by lp(Y)"),
        (score_per_token, "The 5 and the 6 are missing"),
    ],
    "cache_bytes": [
        (bytes_of_keys, "both are kept"),
        (bytes_of_the_past, "The source is missing"),
        (bytes_of_scores, "The lengths are multiplied"),
        (bytes_of_copied_sources, "share its keys and values"),
        (bytes_of_one_hypothesis, "beam_size is not used"),
    ],
    "beam_step": [
        (beam_step_of_each, "Each partial hypothesis gives one survivor"),
        (beam_step_without_log_probs, "of the prefix is not added"),
        (beam_step_wrong_row, "a row has vocab_size entries"),
        (beam_step_of_indices, "holds indices into the flattened table"),
        (beam_step_in_lists, "must be an array of shape (2,), got a list"),
        (beam_step_by_tokens, "not best first"),
        (beam_step_unsorted, "not best first"),
    ],
    "cached_step": [
        (cached_step_past_only, "does not attend to itself"),
        (cached_step_not_grown, "come back as they were"),
        (cached_step_of_scores, "The softmax is missing"),
        (cached_step_of_a_row, "must have the shape (2,), got (1, 2)"),
        (cached_step_unscaled, "scale 1 / sqrt(d_k) is missing"),
    ],
    "best_output": [
        (greedy_output, "This is greedy search"),
        (output_found_first, "The first output that is found"),
        (output_by_last_letter, "looks further back"),
        (output_with_its_end, "holds its end"),
        (output_one_too_short, "counts against the limit"),
        (output_as_probability, "give its logarithm"),
        (output_without_p_of_end, "The end is missing in ln P"),
        (output_in_bits, "and the function returns"),
        (output_is_always_a, "which is more"),
        (output_too_long, "may stand before the end"),
        (output_of_ids, "must be a str"),
        (output_for_ever, "had not come back after"),
    ],
}
