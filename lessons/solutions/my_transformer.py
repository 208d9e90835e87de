"""Solutions of ``my_transformer``: the glue that makes a Transformer of the functions of lessons 1 to 12.

One sentence at a time; sentences are arrays of token numbers, where 0 is padding, 1 begins and 2 ends a sentence.
"""

import math

import numpy as np

from solutions.lesson_01 import linear_backward
from solutions.lesson_02 import gradients
from solutions.lesson_03 import loss_backward, smoothed_loss
from solutions.lesson_04 import backward as attention_backward
from solutions.lesson_04 import decoder_mask, weights
from solutions.lesson_05 import merge, split
from solutions.lesson_06 import backward as norm_backward
from solutions.lesson_06 import forward as norm_forward
from solutions.lesson_07 import backward as feed_forward_backward
from solutions.lesson_07 import forward as feed_forward
from solutions.lesson_08 import embedding, embedding_backward, sinusoids
from solutions.lesson_09 import decoder_layer, encoder_layer, shift
from solutions.lesson_11 import accumulated, adam_step
from solutions.lesson_12 import greedy

# -- 1: a number that remembers where it came from --------------------------------------------------------------------


class Var:
    def __init__(self, data, parents=(), backward=None):
        self.data, self.parents, self.backward = data, parents, backward

    def __add__(self, other):
        return Var(self.data + other.data, (self, other), lambda grad: (grad, grad))


def grads_of(loss, wanted):
    places, tape = {}, []

    def visit(value):
        if value not in places:
            for parent in value.parents:
                visit(parent)
            places[value] = len(places)
            if value.parents:
                tape.append(([places[parent] for parent in value.parents], places[value], value.backward))

    visit(loss)
    found = gradients(tape, len(places))
    return [found[places[value]] for value in wanted]


# -- 2: operations ----------------------------------------------------------------------------------------------------


def project(x, w):
    return Var(x.data @ w.data, (x, w), lambda grad: linear_backward(grad, x.data, w.data)[:2])


def norm(x, gamma, beta):
    y = norm_forward(x.data, gamma.data, beta.data, 1e-6)
    return Var(y, (x, gamma, beta), lambda grad: norm_backward(grad, x.data, gamma.data, 1e-6))


def feed(*inputs):
    data = [each.data for each in inputs]  # x, w1, b1, w2, b2
    return Var(feed_forward(*data), inputs, lambda grad: feed_forward_backward(grad, *data))


def embed(table, ids):
    y = embedding(table.data, ids) + sinusoids(len(ids), table.data.shape[1])
    return Var(y, (table,), lambda grad: (embedding_backward(grad, ids, len(table.data)),))


def logits_of(x, table):
    return Var(x.data @ table.data.T, (x, table), lambda grad: (grad @ table.data, grad.T @ x.data))


# -- 3: attention -----------------------------------------------------------------------------------------------------


def attend(q, k, v, mask, n_heads):
    heads = [split(each.data, n_heads) for each in (q, k, v)]
    w = weights(*heads[:2], mask)

    def backward(grad):
        return tuple(merge(each) for each in attention_backward(split(grad, n_heads), *heads, w))

    return Var(merge(w @ heads[2]), (q, k, v), backward)


def attention(p, x, memory, mask, n_heads):
    if mask is None:
        mask = np.ones((len(x.data), len(memory.data)), dtype=bool)
    q, k, v = project(x, p["q"]), project(memory, p["k"]), project(memory, p["v"])
    return project(attend(q, k, v, mask, n_heads), p["o"])


# -- 4: parameters, all in one vector ---------------------------------------------------------------------------------


def shapes_of(vocab_size, n_layers, d_model, d_ff):
    shapes = {"table": (vocab_size, d_model)}
    for side, attentions in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        for i in range(n_layers):
            place = f"{side} {i}"
            shapes |= {f"{place} {name} {w}": (d_model, d_model) for name in attentions for w in "qkvo"}
            shapes |= {f"{place} w1": (d_model, d_ff), f"{place} b1": (d_ff,)}
            shapes |= {f"{place} w2": (d_ff, d_model), f"{place} b2": (d_model,)}
            for j in range(len(attentions) + 1):
                shapes |= {f"{place} gamma {j}": (d_model,), f"{place} beta {j}": (d_model,)}
    return shapes


def views(vector, shapes):
    p, start = {}, 0
    for name, shape in shapes.items():
        p[name] = Var(vector[start : start + math.prod(shape)].reshape(shape))
        start += math.prod(shape)
    return p


def first_vector(shapes, rng):
    parts = []
    for name, shape in shapes.items():
        if name == "table":
            parts.append(rng.standard_normal(shape) / math.sqrt(shape[1]))
        elif len(shape) == 2:  # Xavier
            parts.append(rng.uniform(-1, 1, shape) * math.sqrt(6 / sum(shape)))
        else:
            parts.append(np.full(shape, float("gamma" in name)))
    return np.concatenate([part.ravel() for part in parts])


# -- 5: layers and the model ------------------------------------------------------------------------------------------


def sublayers(p, place, n_heads, attentions):
    def attention_at(name):
        own = {w: p[f"{place} {name} {w}"] for w in "qkvo"}
        return lambda x, memory, mask: attention(own, x, memory, mask, n_heads)

    def norm_at(j):
        return lambda x: norm(x, p[f"{place} gamma {j}"], p[f"{place} beta {j}"])

    def feed_here(x):
        return feed(x, *(p[f"{place} {w}"] for w in ("w1", "b1", "w2", "b2")))

    return *map(attention_at, attentions), feed_here, [norm_at(j) for j in range(len(attentions) + 1)]


def encode(p, src, n_layers, n_heads):
    x = embed(p["table"], src)
    all_keys = np.ones((len(src), len(src)), dtype=bool)
    for i in range(n_layers):
        x = encoder_layer(x, all_keys, *sublayers(p, f"encoder {i}", n_heads, ["self"]))
    return x


def decode(p, tgt_in, memory, n_layers, n_heads):
    x = embed(p["table"], tgt_in)
    causal = decoder_mask(np.array([len(tgt_in)]), len(tgt_in))[0]
    for i in range(n_layers):
        x = decoder_layer(x, memory, causal, *sublayers(p, f"decoder {i}", n_heads, ["self", "cross"]))
    return logits_of(x, p["table"])


# -- 6: loss ----------------------------------------------------------------------------------------------------------


def loss_of(p, src, tgt, eps, n_layers, n_heads):
    tgt_in, tgt_out = shift(tgt, 1, 2)
    logits = decode(p, tgt_in, encode(p, src, n_layers, n_heads), n_layers, n_heads)
    loss = smoothed_loss(logits.data, tgt_out, eps) / len(tgt_out)
    return Var(loss, (logits,), lambda grad: (loss_backward(grad / len(tgt_out), logits.data, tgt_out, eps),))


# -- 7: an update -----------------------------------------------------------------------------------------------------


def gradient_of(vector, shapes, pairs, eps, n_layers, n_heads):
    losses, grads, n_tokens = [], [], []
    for src, tgt in pairs:
        p = views(vector, shapes)
        loss = loss_of(p, src, tgt, eps, n_layers, n_heads)
        losses.append(loss.data)
        grads.append(np.concatenate([np.ravel(grad) for grad in grads_of(loss, p.values())]))
        n_tokens.append(len(tgt) + 1)
    n_tokens = np.array(n_tokens)
    return n_tokens @ losses / n_tokens.sum(), accumulated(np.array(grads), n_tokens)


def update(state, grad, rate):
    vector, m, v, t = state
    vector, m, v = adam_step(vector, grad, m, v, t + 1, rate, 0.9, 0.98, 1e-9)
    return vector, m, v, t + 1


# -- 8: translation ---------------------------------------------------------------------------------------------------


def translate(p, src, limit, n_layers, n_heads):
    memory, read = encode(p, src, n_layers, n_heads), []

    def step(token):
        read.append(token)
        return decode(p, np.array(read), memory, n_layers, n_heads).data[-1]

    return greedy(step, 1, 2, limit)
