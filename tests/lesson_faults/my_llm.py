"""Planted faults of ``my_llm``: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.my_transformer import backward_by_place

from solutions import my_llm as right
from solutions.my_transformer import Var


def repeated_numbers(x, n_shared, n_heads):
    copies = n_heads // n_shared
    return Var(np.repeat(x.data, copies, axis=1), (x,), lambda grad: (grad.reshape(*x.data.shape, copies).sum(axis=2),))


FAULTS = {
    "rms": {
        "there are 2 parents": "gamma.data, 1e-6)) -> gamma.data, 1e-6)[:1])",
        "does not use the gradient": "backward(grad -> backward(grad**0",
        "must be a Var": lambda *inputs: right.rms(*inputs).data,
    },
    "gate": {
        "w1 and w3 are exchanged": lambda x, w1, w3, w2: right.gate(x, w3, w1, w2),
        "does not use the gradient": "backward(grad -> backward(grad**0",
        "each gradient has its parent's shape": ", inputs, -> , inputs[::-1],",
    },
    "turn": {
        "as one head": ("split(rows, n_heads) -> split(rows, 1)",),
        "`start` is not used": "rotate(head, start) -> rotate(head, 0)",
        "turned forwards": "each_head(rotary_backward -> each_head(rotary",
        "there is 1 parent": "(each_head(rotary_backward, grad),) -> each_head(rotary_backward, grad)",
    },
    "share": {
        "repeat whole heads": repeated_numbers,
        "gets the sum": ".sum(axis=1) -> .mean(axis=1)",
        "The heads stand in turn": (
            "np.repeat(split(x.data, n_shared), copies, axis=0) -> np.tile(split(x.data, n_shared), (copies, 1, 1))",
            "reshape(n_shared, copies -> reshape(copies, n_shared",
            "sum(axis=1) -> sum(axis=0)",
        ),
    },
    "look_up": {
        "last place alone": backward_by_place(right.look_up),
        "does not use the gradient": "backward(grad -> backward(grad**0",
        "there is 1 parent": "),)) -> )))",
    },
    "attention": {
        "The future can be seen": "np.tri(len(x.data), dtype=bool) -> np.ones((len(x.data), len(x.data)), dtype=bool)",
        "The keys are not turned": ", turn(k, n_shared, 0) -> , k",
        "Queries and keys are not turned": "turn(q, n_heads, 0), turn(k, n_shared, 0) -> q, k",
        "The values are turned too": "k, v = share(k, -> v = turn(v, n_shared, 0)\n    k, v = share(k,",
    },
    "shapes_of": {
        "n_shared heads": "d_model // n_heads * n_shared -> d_model",
        "each of their heads": "d_model // n_heads * n_shared -> n_shared",
        "The last norm": ' | {"gamma": (d_model,)} -> ',
        "'0 k' must have the shape (4, 2), got (4, 2.0)": "d_model // n_heads -> d_model / n_heads",
        "'0 w2' must have the shape": "(d_ff, d_model) -> (d_model, d_ff)",
    },
    "forward": {
        "last norm": 'logits_of(rms(x, p["gamma"]) -> logits_of(x',
        "residual connections are missing": (
            "x = x + attention -> x = attention",
            "x = x + gate -> x = gate",
        ),
        "Both norms": "gamma 1 -> gamma 0",
        "Every layer has the parameters": "for i in range(n_layers): -> for i in [0] * n_layers:",
    },
    "loss_of": {
        "sum over the tokens": ("0.0) / len(targets) -> 0.0)", "grad / len(targets) -> grad"),
        "not shifted": "reads, targets = shift(text, 1, 2) -> reads, targets = 2 * shift(text, 1, 2)[:1]",
        "The end mark is a token too": (
            "0.0) / len(targets) -> 0.0) / len(text)",
            "grad / len(targets) -> grad / len(text)",
        ),
    },
    "continued": {
        "reads the last token alone": "np.array(text) -> np.array(text[-1:])",
        "The prompt is missing": "text[1:] -> text[1 + len(prompt) :]",
        "It is too long": "<= limit -> <= limit + 1",
        "must end at the end mark": "token == 2 -> token == -1",
    },
}
