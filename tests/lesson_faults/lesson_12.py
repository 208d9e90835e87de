"""Planted faults of lesson 12: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from minitransformer.generation import length_penalty
from solutions import lesson_12 as right


def best_of_all(after, limit, text=""):
    probabilities = after(text)
    outputs = [(np.log(probabilities["."]), text)]
    for letter in set(probabilities) - {"."} if len(text) < limit else ():
        output, log_prob = best_of_all(after, limit, text + letter)
        outputs.append((log_prob + np.log(probabilities[letter]), output))
    return max(outputs)[::-1]


FAULTS = {
    "score": {
        "EOS is not counted": lambda log_prob, n_words, alpha: log_prob / length_penalty(n_words, alpha),
        "multiplied by lp(Y)": lambda log_prob, n_words, alpha: log_prob * length_penalty(n_words + 1, alpha),
        "The 5 and the 6 are missing": lambda log_prob, n_words, alpha: log_prob * (1 + n_words) ** -alpha,
    },
    "cache_bytes": {
        "both are kept": with_result(right.cache_bytes, lambda n_bytes: n_bytes // 2),
        "The source is missing": with_inputs(right.cache_bytes, src_length=lambda src_length: 0),
        "The lengths are multiplied": "tgt_length + src_length) -> tgt_length * src_length)",
        "share its keys and values": "beam_size * tgt_length + src_length -> beam_size * (tgt_length + src_length)",
        "beam_size is not used": with_inputs(right.cache_bytes, beam_size=lambda beam_size: 1),
    },
    "decoding_flops": {
        "half of the FLOPs": with_result(right.decoding_flops, lambda without, cached: (without // 2, cached // 2)),
        "they are made once": "n_tgt + 1)) + memory -> n_tgt + 1)) + n_tgt * memory",
        "the product computes all scores": "4 * t * t * wide -> 2 * t * (t + 1) * wide",
        "here it meets all n_tgt": "4 * t * wide -> 4 * n_tgt * wide",
    },
    "greedy": {
        "step is called twice": "token = int( -> step(token)\n        token = int(",
        "step takes one token": "step(token) -> step([begin, *tokens])",
        "Every step is given begin": "step(token) -> step(begin)",
        "The result holds end": "            break ->             return [*tokens, end]",
        "The result holds begin": lambda step, begin, *rest: [begin] + right.greedy(step, begin, *rest),
        "counts against the limit": with_inputs(right.greedy, limit=lambda limit: limit - 1),
        "give it the newest alone": "step(token) -> [step(each) for each in [begin, *tokens]][-1]",
        "A model may never say end": ("len(tokens) < limit -> True", "return tokens -> return tokens[:limit]"),
        "limit is the most": with_inputs(right.greedy, limit=lambda limit: limit + 1),
    },
    "beam_step": {
        "The worst survive": "-totals -> totals",
        "they add up, as probabilities multiply": "None] + next -> None] * next",
        "Each partial hypothesis gives one survivor": with_inputs(
            right.beam_step, next_log_probs=lambda p: np.where(p == p.max(axis=1, keepdims=True), p, -np.inf)
        ),
        "of the prefix is not added": with_inputs(right.beam_step, log_probs=np.zeros_like),
        "a row has vocab_size entries": "next_log_probs.shape[1] -> len(next_log_probs)",
        "holds indices into the flattened table": "best // vocab_size -> best",
        "not best first": "    return ->     best = best[np.argsort(best % vocab_size)]\n    return",
        "right, but not best first": with_result(right.beam_step, lambda *parts: tuple(part[::-1] for part in parts)),
    },
    "cached_step": {
        "does not attend to itself": ("scores = keys -> scores = keys[:, :-1]", "* values -> * values[:, :-1]"),
        "come back as they were": "sum(axis=1), keys, values -> sum(axis=1), keys[:, :-1], values[:, :-1]",
        "The softmax is missing": "(weights * values) -> (scores * values)",
        "The softmax runs over the heads": (
            "scores.max(axis=1 -> scores.max(axis=0",
            "exponentials.sum(axis=1 -> exponentials.sum(axis=0",
        ),
        "root of the number of positions": "keys.shape[-1] -> keys.shape[1]",
        "must have the shape (1, 2), got (2,)": "sum(axis=1), keys -> sum(axis=1).reshape(-1), keys",
        "scale 1 / sqrt(d_k) is missing": "/ math.sqrt(keys.shape[-1]) -> ",
    },
    "best_output": {
        "This is greedy search": "        for letter ->         heap.clear()\n        for letter",
        "The first output that is found": (
            "for letter, -> if '.' in after(text): return text, math.log(after(text)['.']) - cost\n        for letter,"
        ),
        "holds its end": with_result(right.best_output, lambda text, log_prob: (text + ".", log_prob)),
        "counts against the limit": with_inputs(right.best_output, limit=lambda limit: limit - 1),
        "give its logarithm": with_result(right.best_output, lambda text, log_prob: (text, np.exp(log_prob))),
        "The end is missing in ln P": "text[:-1], -cost -> text[:-1], -cost - math.log(after(text[:-1])['.'])",
        "and the function returns": with_result(right.best_output, lambda text, log_prob: (text, log_prob / np.log(2))),
        "'ffff' has": "        for letter ->         heap = heapq.nsmallest(200, heap)\n        for letter",
        "which is more": lambda after, limit: ("a", np.log(after("")["a"]) + np.log(after("a")["."])),
        "may stand before the end": with_inputs(right.best_output, limit=lambda limit: limit + 3),
        "must be a str": lambda after, limit: ([4, 5], -1.0),
        "too much work": best_of_all,
    },
}
