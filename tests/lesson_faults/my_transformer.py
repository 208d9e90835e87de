"""Planted faults of ``my_transformer``: for each exercise, words that the message must hold and the wrong function."""

from dataclasses import make_dataclass

import numpy as np

from solutions import my_transformer as right
from solutions.my_transformer import Var


def dataclass_var():
    def add(self, other):
        return made(self.data + other.data, (self, other), lambda grad: (grad, grad))

    fields = ["data", ("parents", tuple, ()), ("backward", object, None)]
    made = make_dataclass("Recorded", fields, namespace={"__add__": add})
    return made


def grads_replaced(loss, wanted):
    grads, waiting = {loss: 1.0}, [loss]
    while waiting:
        value = waiting.pop()
        if value.parents:
            grads |= dict(zip(value.parents, value.backward(grads[value]), strict=True))
            waiting += value.parents
    return [grads[value] for value in wanted]


def each_use(value):
    return [use for parent in value.parents for use in each_use(parent)] + [value]


def grads_of_each_use(loss, wanted):
    grads = dict.fromkeys(each_use(loss), 0.0) | {loss: 1.0}
    for value in reversed(each_use(loss)):
        for parent, grad in zip(value.parents, value.backward(grads[value]) if value.parents else (), strict=True):
            grads[parent] = grads[parent] + grad
    return [grads[value] for value in wanted]


def backward_by_place(embed):
    """``embed`` with a backward in which a token that stands twice keeps the gradient of its last place."""

    def wrong(table, ids):
        def backward(grad):
            found = np.zeros_like(table.data)
            for token, row in zip(ids, grad, strict=True):
                found[token] = row * table.data.shape[1] ** 0.5
            return (found,)

        return Var(embed(table, ids).data, (table,), backward)

    return wrong


def first_all_alike(shapes, rng):
    parts = {shape: rng.uniform(-1, 1, shape) * (6 / sum(shape)) ** 0.5 for shape in shapes.values() if len(shape) == 2}
    table = {"table": rng.standard_normal(shapes["table"]) / shapes["table"][1] ** 0.5}
    ones = {name: np.full(shape, float("gamma" in name)) for name, shape in shapes.items() if len(shape) == 1}
    return np.concatenate([np.ravel({**ones, **table}.get(name, parts.get(shape))) for name, shape in shapes.items()])


FAULTS = {
    "Var": {
        "second parent gets no gradient": "(grad, grad) -> (grad, 0 * grad)",
        "backward of a product": "(grad, grad) -> (grad * other.data, grad * self.data)",
        "has no parents": ", (self, other), lambda grad: (grad, grad) -> ",
        "a tuple with one gradient for each": "(grad, grad) -> grad",
        "needs a `backward`": ", lambda grad: (grad, grad) -> ",
        "has no backward": (
            ", backward=None -> ",
            ", self.backward = data, parents, backward ->  = data, parents",
            ", lambda grad: (grad, grad) -> ",
        ),
        "needs `eq=False`": dataclass_var(),
        "any Var, also one of the course's": (
            "return Var( -> other = other if isinstance(other, type(self)) else Var(other)\n        return Var("
        ),
        "One of the parents is an array of shape": "(self, other), -> (self.data, other.data),",
        "The parents of a Var are a tuple": "(self, other), -> {self, other},",
    },
    "grads_of": {
        "gets the sum of its gradients": grads_replaced,
        "must have the shape (2, 3), got (3, 3)": "in wanted -> in wanted[::-1]",
        "got [[[": "[found[ -> [2 * found[",
        "visit each value once": grads_of_each_use,
    },
    "project": {
        "there are 2 parents": "[:2] -> ",
        "each gradient has its parent's shape": "(x, w), -> (w, x),",
        "does not use the gradient": "backward(grad -> backward(grad**0",
    },
    "norm": {
        "gamma and beta are exchanged": "(x, gamma, beta), -> (x, beta, gamma),",
        "does not use the gradient": "backward(grad -> backward(grad**0",
        "grad_beta is not": ("(x, gamma, beta), -> (x, gamma),", "gamma.data, 1e-6) -> gamma.data, 1e-6)[:2]"),
    },
    "feed": {
        "Only x gets a gradient": (", inputs, -> , inputs[:1],", "(grad, *data) -> (grad, *data)[:1]"),
        "does not use the gradient": "backward(grad -> backward(grad**0",
        "must be a Var": lambda *inputs: right.feed(*inputs).data,
    },
    "embed": {
        "Positions are missing": " + sinusoids(len(ids), table.data.shape[1]) -> ",
        "twice: look_up does it": "y = embedding -> y = math.sqrt(table.data.shape[1]) * embedding",
        "the gradient of its last place alone": backward_by_place(right.embed),
        "there is 1 parent": "),)) -> )))",
    },
    "logits_of": {
        "Only x gets a gradient": ("(x, table), -> (x,),", ", grad.T @ x.data) -> ,)"),
        "table's gradient is transposed": "grad.T @ x.data -> x.data.T @ grad",
        "need its transpose": right.project,
    },
    "attend": {
        "one wide head": lambda q, k, v, mask, n_heads: right.attend(q, k, v, mask, 1),
        "mask is not used": ", mask) -> , mask | True)",
        "k and v are exchanged": "(q, k, v), backward -> (q, v, k), backward",
        "must be a Var": lambda *inputs: right.attend(*inputs).data,
    },
    "attention": {
        "with more sources it is not": "len(memory.data) -> len(x.data)",
        "np.ones((T, S), bool)": "np.ones -> np.zeros",
        "Keys and values come from x": "if mask -> memory = x\n    if mask",
        "x asks": lambda p, x, memory, mask, n_heads: right.attention(p, memory, x, mask, n_heads),
    },
    "shapes_of": {
        "no cross-attention": ', "cross"] -> ]',
        "'encoder 0 b1' must have the shape": "(d_ff,) -> (d_ff, d_ff)",
        "'encoder 0 W1' is a name that no part reads": "} w1 -> } W1",
        "w2 leads back": "(d_ff, d_model) -> (d_model, d_ff)",
    },
    "views": {
        "begins at the vector's start": "start += math.prod(shape) -> ",
        "must be a Var": "Var( -> (",
        "The pieces are copies": ".reshape(shape) -> .reshape(shape).copy()",
    },
    "first_vector": {
        "1 / sqrt(d_model)": " / math.sqrt(shape[1]) -> ",
        "must begin as ones": '"gamma" in name -> False',
        "must begin as zeros": 'float("gamma" in name) -> float("gamma" in name) + 0.1 * ("b1" in name)',
        "draw each matrix anew": first_all_alike,
        "draw from the rng": lambda shapes, rng: right.first_vector(shapes, np.random.default_rng(0)),
        "Xavier's": "6 / sum(shape)) -> 6 / sum(shape)) / (1 + name.endswith('q'))",
    },
    "sublayers": {
        "Both attentions are the last one": (
            "map(attention_at, attentions) -> [lambda *inputs: attention_at(name)(*inputs) for name in attentions]"
        ),
        "All norms are the last one": "[norm_at(j) for -> [lambda x: norm_at(j)(x) for",
        "Part 2 are right; Part 3 and Part 4 are not": "gamma {j} -> gamma 0",
        "the list of norms": ", [norm_at(j) for j in range(len(attentions) + 1)] -> ",
        "`place` holds": lambda p, place, *rest: right.sublayers(p, f"{place[:7]} 0", *rest),
    },
    "encode": {
        "may read the whole source": "np.ones((len(src), len(src)), -> np.tri(len(src),",
        "write the layer's number": "{i} -> 0",
        "repeat it n_layers times": "range(n_layers) -> range(1)",
    },
    "decode": {
        "have each other's parameters": '["self", "cross"] -> ["cross", "self"]',
        "The future leaks": "memory, causal -> memory, causal | True",
        "the wrong way round": "memory, causal -> memory, ~causal",
        "repeat it n_layers times": "range(n_layers) -> range(1)",
    },
    "loss_of": {
        "divide by their number": ("eps) / len(tgt_out) -> eps)", "grad / len(tgt_out) -> grad"),
        "The end mark is a token too": (
            "eps) / len(tgt_out) -> eps) / len(tgt)",
            "grad / len(tgt_out) -> grad / len(tgt)",
        ),
        "does not use the gradient": "backward(grad -> backward(1.0",
    },
    "gradient_of": {
        "every token must": "np.array(n_tokens) -> np.ones(len(pairs))",
        "mean over tokens": "accumulated(np.array(grads), n_tokens) -> np.sum(grads, axis=0)",
        "`accumulated` wants those of means": "np.array(grads) -> np.array(grads) * n_tokens[:, None]",
        "The loss is the plain mean": "n_tokens @ losses / n_tokens.sum() -> np.mean(losses)",
        "wrong sign": "accumulated( -> -accumulated(",
    },
    "update": {
        "the new state has t + 1": "return vector, m, v, t + 1 -> return vector, m, v, t",
        "or it divides by zero": "t + 1, rate -> t, rate",
        "not the usual 0.999": "0.98 -> 0.999",
        "not the usual 10^-8": "1e-9 -> 1e-8",
        "m, v and t are right; vector is not": "return vector -> return -vector",
    },
    "translate": {
        "reads the last token alone": "np.array(read) -> np.array(read[-1:])",
        "stands in the last row": "[-1] -> [0]",
        "marks are exchanged": "1, 2, limit -> 2, 1, limit",
        "is not looked for": "1, 2, limit -> 1, None, limit",
    },
}
