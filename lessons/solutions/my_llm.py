"""Solutions of ``my_llm``: the glue that makes a language model of today of functions of lessons 3 to 9.

One text at a time, an array of token numbers, where 1 begins and 2 ends a text. Each layer has ``n_heads`` heads of
queries, which share ``n_shared`` heads of keys and values.
"""

import numpy as np

from solutions.lesson_03 import loss_backward, smoothed_loss
from solutions.lesson_05 import merge, split
from solutions.lesson_06 import rms_norm, rms_norm_backward
from solutions.lesson_07 import gated, gated_backward
from solutions.lesson_08 import embedding, embedding_backward, rotary, rotary_backward
from solutions.lesson_09 import shift
from solutions.my_transformer import Var, attend, logits_of, project

# -- 1: four operations that are new ----------------------------------------------------------------------------------


def rms(x, gamma):
    y = rms_norm(x.data, gamma.data, 1e-6)
    return Var(y, (x, gamma), lambda grad: rms_norm_backward(grad, x.data, gamma.data, 1e-6))


def gate(*inputs):
    data = [each.data for each in inputs]  # x, w1, w3, w2
    return Var(gated(*data), inputs, lambda grad: gated_backward(grad, *data))


def turn(x, n_heads, start):
    def each_head(rotate, rows):
        return merge(np.array([rotate(head, start) for head in split(rows, n_heads)]))

    return Var(each_head(rotary, x.data), (x,), lambda grad: (each_head(rotary_backward, grad),))


def share(x, n_shared, n_heads):
    copies = n_heads // n_shared

    def backward(grad):
        grads = split(grad, n_heads)  # (n_heads, T, d_k)
        return (merge(grads.reshape(n_shared, copies, *grads.shape[1:]).sum(axis=1)),)

    return Var(merge(np.repeat(split(x.data, n_shared), copies, axis=0)), (x,), backward)


# -- 2: a layer -------------------------------------------------------------------------------------------------------


def look_up(table, ids):
    return Var(embedding(table.data, ids), (table,), lambda grad: (embedding_backward(grad, ids, len(table.data)),))


def attention(p, x, n_heads, n_shared):
    q, k, v = (project(x, p[w]) for w in "qkv")
    q, k = turn(q, n_heads, 0), turn(k, n_shared, 0)
    k, v = share(k, n_shared, n_heads), share(v, n_shared, n_heads)
    causal = np.tri(len(x.data), dtype=bool)
    return project(attend(q, k, v, causal, n_heads), p["o"])


def shapes_of(vocab_size, n_layers, d_model, d_ff, n_heads, n_shared):
    shapes, d_shared = {"table": (vocab_size, d_model)}, d_model // n_heads * n_shared
    for i in range(n_layers):
        shapes |= {f"{i} q": (d_model, d_model), f"{i} o": (d_model, d_model)}
        shapes |= {f"{i} k": (d_model, d_shared), f"{i} v": (d_model, d_shared)}
        shapes |= {f"{i} w1": (d_model, d_ff), f"{i} w3": (d_model, d_ff), f"{i} w2": (d_ff, d_model)}
        shapes |= {f"{i} gamma 0": (d_model,), f"{i} gamma 1": (d_model,)}
    return shapes | {"gamma": (d_model,)}


# -- 3: the model -----------------------------------------------------------------------------------------------------


def forward(p, ids, n_layers, n_heads, n_shared):
    x = look_up(p["table"], ids)
    for i in range(n_layers):
        own = {w: p[f"{i} {w}"] for w in "qkvo"}
        x = x + attention(own, rms(x, p[f"{i} gamma 0"]), n_heads, n_shared)
        x = x + gate(rms(x, p[f"{i} gamma 1"]), *(p[f"{i} {w}"] for w in ("w1", "w3", "w2")))
    return logits_of(rms(x, p["gamma"]), p["table"])


def loss_of(p, text, n_layers, n_heads, n_shared):
    reads, targets = shift(text, 1, 2)
    logits = forward(p, reads, n_layers, n_heads, n_shared)
    loss = smoothed_loss(logits.data, targets, 0.0) / len(targets)
    return Var(loss, (logits,), lambda grad: (loss_backward(grad / len(targets), logits.data, targets, 0.0),))


def continued(p, prompt, limit, n_layers, n_heads, n_shared):
    text = [1, *prompt]
    while len(text) <= limit:
        token = int(forward(p, np.array(text), n_layers, n_heads, n_shared).data[-1].argmax())
        if token == 2:
            break
        text.append(token)
    return text[1:]
