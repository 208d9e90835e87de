"""Planted faults of lesson 9: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_09 as right

FAULTS = {
    "shift": {
        "not shifted": lambda tokens, begin, end: (np.array([begin, *tokens]), np.array([begin, *tokens])),
        "join them with np.concatenate": lambda tokens, begin, end: ([begin] + tokens, tokens + [end]),
        "exchanged": with_result(right.shift, lambda tgt_in, tgt_out: (tgt_out, tgt_in)),
        "dtype=int": "concatenate([[begin], -> concatenate([[float(begin)],",
        "end mark is missing": with_result(right.shift, lambda tgt_in, tgt_out: (tgt_in[:-1], tgt_out[:-1])),
    },
    "parameters": {
        "Attention has no biases": "d_v  # -> d_v + 2 * n_heads * d_k + n_heads * d_v + d_model  #",
        "Three matrices are counted": with_inputs(right.parameters, vocab_size=lambda vocab_size: 3 * vocab_size),
        "A decoder layer has two attentions": "2 * attention -> attention",
        "the second bias": "d_ff * d_model + d_model -> d_ff * d_model",
        "The norms are missing": lambda n_layers, d, *rest: right.parameters(n_layers, d, *rest) - 10 * n_layers * d,
        "where d_k and d_v belong": ("* d_k -> * (d_model // n_heads)", "* d_v  # -> * (d_model // n_heads)  #"),
    },
    "encoder_layer": {
        "The mask is not used": "x, mask)) -> x, mask | True))",
        "turned around": with_inputs(right.encoder_layer, mask=np.logical_not),
        "layer's input in it": ("x = norms -> seen = norms", "feed_forward(x) -> feed_forward(seen)"),
        "One norm serves both": with_inputs(right.encoder_layer, norms=lambda norms: norms[:1] * 2),
        "around self-attention is missing": "x + self -> self",
        "around the feed-forward layer is missing": "x + feed -> feed",
        "residual sums are missing": ("x + self -> self", "x + feed -> feed"),
    },
    "decoder_layer": {
        "Cross-attention has the causal mask": "None -> causal",
        "arguments of cross-attention are exchanged": "x, memory, None -> memory, x, None",
        "the wrong way round": "x, x, causal -> x, x, ~causal",
        "with two sources more": "memory, None -> memory[: len(x)], None",
        "around self-attention is missing": "x + self -> self",
        "around cross-attention is missing": "x + cross -> cross",
        "around the feed-forward layer is missing": "x + feed -> feed",
        "One norm serves all": with_inputs(right.decoder_layer, norms=lambda norms: norms[:1] * 3),
        "Cross-attention is missing": "x = norms[1](x + cross_attention(x, memory, None)) -> ",
        "Self-attention reads the memory": "x, x, causal -> x, memory, causal",
        "Expected [[": lambda x, *rest: np.sin(np.arange(x.size)).reshape(x.shape),
        "The future leaks": "x, causal)) -> x, None))",
        "Cross-attention reads x twice": "memory, None -> x, None",
        "residual sums are missing": ("x + self -> self", "x + cross -> cross", "x + feed -> feed"),
    },
    "cross_attention_backward": {
        "the keys alone": " + grad_v @ w_v.T -> ",
        "the values alone": "grad_k @ w_k.T +  -> ",
        "are exchanged": "return grad_x, grad_memory -> return grad_memory, grad_x",
        "All three parts arrive at x": "return grad_x, grad_memory -> return grad_x + grad_memory, 0 * grad_memory",
        "x is read for the memory": "    _, saved ->     memory = x\n    _, saved",
        "w_k and w_v are taken with x": ("memory.T @ grad_k -> x.T @ grad_k", "memory.T @ grad_v -> x.T @ grad_v"),
        "the order is grad_x, grad_memory, grad_w_q": "grad_memory, x.T @ grad_q -> x.T @ grad_q, grad_memory",
        "grad_x is not. grad_x: Every number is 2 times": "return grad_x -> return 2 * grad_x",
        "with one source more": "    _, saved ->     memory = memory[: len(x)]\n    _, saved",
    },
    "leaks": {
        "It is transposed": with_result(right.leaks, lambda found: found.swapaxes(0, 1)),
        "Small leaks are missed": "(logits_of(changed) != before) -> (np.abs(logits_of(changed) - before) > 1e-6)",
        "compare with 0": with_inputs(right.leaks, logits_of=lambda f: lambda ids: f(ids).round(8)),
        "its own token": with_result(right.leaks, lambda found: found | np.eye(len(found), dtype=bool)),
        "in one logit alone": ".any(axis=-1) -> .all(axis=-1)",
        "take another one each time": "(ids[place] + 1) % vocab_size -> 1",
        "leaks from position 3 to 1": with_result(right.leaks, lambda found: found & ~np.triu(found, k=2)),
    },
}
