"""Planted faults of ``my_transformer``: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import my_transformer as right
from solutions.my_transformer import Var


class VarOfOneParent(Var):
    def __add__(self, other):
        return VarOfOneParent(self.data + other.data, (self, other), lambda grad: (grad, np.zeros_like(grad)))


class VarOfProducts(Var):
    def __add__(self, other):
        return VarOfProducts(self.data + other.data, (self, other), lambda g: (g * other.data, g * self.data))


class VarOfNoParents(Var):
    def __add__(self, other):
        return Var(self.data + other.data)


class VarWithoutBackward(Var):
    def __add__(self, other):
        return Var(self.data + other.data, (self, other))


class VarOfOneGradient(Var):
    def __add__(self, other):
        return Var(self.data + other.data, (self, other), lambda grad: grad)


def grads_replaced(loss, wanted):
    grads, waiting = {loss: 1.0}, [loss]
    while waiting:
        value = waiting.pop()
        if value.parents:
            grads |= dict(zip(value.parents, value.backward(grads[value]), strict=True))
            waiting += value.parents
    return [grads[value] for value in wanted]


def grads_in_reverse(loss, wanted):
    return right.grads_of(loss, wanted)[::-1]


def grads_doubled(loss, wanted):
    return [2 * grad for grad in right.grads_of(loss, wanted)]


def of_backward(function, backward):
    """The function, whose result has ``backward(the right rule, grad)``."""

    def wrong(*inputs):
        y = function(*inputs)
        return Var(y.data, y.parents, lambda grad: backward(y.backward, grad))

    return wrong


def norm_of_two(x, gamma, beta):
    y = right.norm(x, gamma, beta)
    return Var(y.data, (x, gamma), lambda grad: y.backward(grad)[:2])


def embed_without_order(table, ids):
    y = right.embed(table, ids)
    return Var(y.data - right.sinusoids(len(ids), y.data.shape[1]), y.parents, y.backward)


def embed_backward_by_place(table, ids):
    def backward(grad):
        found = np.zeros_like(table.data)
        for token, row in zip(ids, grad, strict=True):
            found[token] = row * table.data.shape[1] ** 0.5
        return (found,)

    return Var(right.embed(table, ids).data, (table,), backward)


def attention_of_square_masks(p, x, memory, mask, n_heads):
    if mask is None:
        mask = np.ones((len(x.data), len(x.data)), dtype=bool)
    return right.attention(p, x, memory, mask, n_heads)


def attention_in_itself(p, x, memory, mask, n_heads):
    return right.attention(p, x, x, mask, n_heads)


def decode_by(change):
    """The decoder, whose layers have ``change(x, memory, causal)`` for inputs."""

    def wrong(p, tgt_in, memory, n_layers, n_heads):
        x = right.embed(p["table"], tgt_in)
        for i in range(n_layers):
            inputs = change(x, memory, np.tri(len(tgt_in), dtype=bool))
            x = right.decoder_layer(*inputs, *right.sublayers(p, f"decoder {i}", n_heads, ["self", "cross"]))
        return right.logits_of(x, p["table"])

    return wrong


def decode_one_layer(p, tgt_in, memory, n_layers, n_heads):
    return right.decode(p, tgt_in, memory, 1, n_heads)


def loss_divided(n_tokens):
    def wrong(p, src, tgt, *rest):
        loss = right.loss_of(p, src, tgt, *rest)
        factor = (len(tgt) + 1) / n_tokens(tgt)
        return Var(factor * loss.data, loss.parents, lambda grad: loss.backward(factor * grad))

    return wrong


def gradient_of_sentences(vector, shapes, pairs, *rest):
    losses, grads = zip(*(right.gradient_of(vector, shapes, [pair], *rest) for pair in pairs), strict=True)
    return np.mean(losses), np.mean(grads, axis=0)


def gradient_of_sums(vector, shapes, pairs, *rest):
    loss, _ = right.gradient_of(vector, shapes, pairs, *rest)
    return loss, np.sum([right.gradient_of(vector, shapes, [pair], *rest)[1] for pair in pairs], axis=0)


def gradient_that_descends(vector, shapes, pairs, *rest):
    loss, grad = right.gradient_of(vector, shapes, pairs, *rest)
    return loss, -grad


def translation_by(logits_of, begin=1, end=2):
    def wrong(p, src, limit, n_layers, n_heads):
        memory, tokens = right.encode(p, src, n_layers, n_heads), []

        def step(token):
            tokens.append(token)
            return logits_of(lambda ids: right.decode(p, np.array(ids), memory, n_layers, n_heads).data, tokens)

        return right.greedy(step, begin, end, limit)

    return wrong


FAULTS = {
    "Var": {
        "second parent gets no gradient": VarOfOneParent,
        "backward of a product": VarOfProducts,
        "[[0., 0., 0.]": VarOfNoParents,
        "a tuple with one gradient for each": VarOfOneGradient,
        "needs a `backward`": VarWithoutBackward,
    },
    "grads_of": {
        "gets the sum of its gradients": grads_replaced,
        "must have the shape (2, 3), got (3, 3)": grads_in_reverse,
        "got [[[": grads_doubled,
    },
    "norm": {
        "gamma and beta are exchanged": of_backward(right.norm, lambda rule, grad: (*rule(grad)[::2], rule(grad)[1])),
        "does not use the gradient": of_backward(right.norm, lambda rule, grad: rule(grad**0)),
        "[0., 0., 0., 0.])": norm_of_two,
    },
    "embed": {
        "Positions are missing": embed_without_order,
        "the gradient of its last place alone": embed_backward_by_place,
        "a tuple with one gradient for each": of_backward(right.embed, lambda rule, grad: rule(grad)[0]),
    },
    "attend": {
        "one wide head": lambda q, k, v, mask, n_heads: right.attend(q, k, v, mask, 1),
        "mask is not used": lambda q, k, v, mask, n_heads: right.attend(q, k, v, mask | True, n_heads),
        "k and v are exchanged": of_backward(right.attend, lambda rule, grad: [rule(grad)[i] for i in (0, 2, 1)]),
        "must be a Var": lambda *inputs: right.attend(*inputs).data,
    },
    "attention": {
        "with more sources it is not": attention_of_square_masks,
        "Keys and values come from x": attention_in_itself,
        "x asks": lambda p, x, memory, mask, n_heads: right.attention(p, memory, x, mask, n_heads),
    },
    "decode": {
        "The future leaks": decode_by(lambda x, memory, causal: (x, memory, causal | True)),
        "the wrong way round": decode_by(lambda x, memory, causal: (x, memory, causal.T)),
        "repeat it n_layers times": decode_one_layer,
    },
    "loss_of": {
        "divide by their number": loss_divided(lambda tgt: 1),
        "The end mark is a token too": loss_divided(len),
        "does not use the gradient": of_backward(right.loss_of, lambda rule, grad: rule(1.0)),
    },
    "gradient_of": {
        "every token must": gradient_of_sentences,
        "mean over tokens": gradient_of_sums,
        "wrong sign": gradient_that_descends,
    },
    "translate": {
        "reads the last token alone": translation_by(lambda decode, tokens: decode(tokens[-1:])[-1]),
        "stands in the last row": translation_by(lambda decode, tokens: decode(tokens)[0]),
        "marks are exchanged": translation_by(lambda decode, tokens: decode(tokens)[-1], begin=2, end=1),
    },
}
