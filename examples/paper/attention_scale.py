"""Sec. 3.2.1 measured: dot-product attention with and without 1 / sqrt(d_k), and additive attention, at growing d_k.

    python -m examples.paper.attention_scale            about 20 minutes on one core; into results/attention_scale.*
    python -m examples.paper.attention_scale --quick    small sizes; writes nothing

Three measurements:

- random queries and keys, whose components have mean 0 and variance 1 as in the paper's footnote: the variance of the
  scores, the entropy of the weights, and how much of a gradient is passed back through the softmax;
- one head that learns associative recall: which value belongs to the key that is asked for?
- the time and memory of forward and backward.

The head's queries and keys also have components of variance 1 when learning begins. Each kind of score and each d_k has
the learning rate with the lowest mean loss, chosen from the same few.
"""

import sys
from functools import partial
from itertools import product

import numpy as np

from examples.paper.attention_scale_report import KINDS, markdown
from examples.paper.trials import Experiment, learn, main
from examples.report import time_and_memory
from minitransformer.autograd import Tensor, functions, no_grad
from minitransformer.nn import Module, Parameter, ParameterVector
from minitransformer.ops.softmax import softmax_backward, softmax_forward

SETTINGS = {
    "d_k": [4, 8, 16, 32, 64, 128, 256, 512],
    "d_model": 64,
    "keys": 64,
    "values": 16,
    "pairs": 16,
    "batch": 16,
    "updates": [100, 400],
    "learning_rates": [0.001, 0.003, 0.01, 0.03, 0.1],
    "positions": 128,
}
"""keys, values: how many different ones there are   pairs: in one sequence   positions: of random or timed inputs"""
QUICK = {"d_k": [4, 64], "updates": [20], "learning_rates": [0.01], "positions": 32}


def scores(kind: str, q: np.ndarray, k: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The scores before the softmax.   q: (T, d_k)   k: (S, d_k)   w: (d_k,), of additive attention; (T, S)"""
    if kind == "additive":
        return np.tanh(q[:, None] + k[None]) @ w
    return q @ k.T / (np.sqrt(q.shape[1]) if kind == "scaled dot product" else 1)


def attend(kind: str, q: Tensor, k: Tensor, v: Tensor, w: Tensor | None) -> Tensor:
    """The head's output, (..., T, d_v)"""
    if kind == "additive":
        return functions.additive_attention(q, k, v, w)
    return functions.attention(q if kind == "scaled dot product" else q * q.shape[-1] ** 0.5, k, v)


def additive_vector(rng: np.random.Generator, d_k: int) -> np.ndarray:
    """w of additive attention as the models initialize it, (d_k,)      [Glorot & Bengio 2010]"""
    return rng.uniform(-1, 1, d_k) * (6 / (d_k + 1)) ** 0.5


def statistics(kind: str, d_k: int, n: int, rng: np.random.Generator) -> dict[str, float]:
    """Variance of the scores of n queries and n keys, mean entropy of the weights (nats; ln n if they are all equal),
    and mean norm of what softmax passes back of a random gradient with variance 1."""
    q, k = rng.standard_normal((2, n, d_k))
    s = scores(kind, q, k, additive_vector(rng, d_k))
    weights, saved = softmax_forward(s)
    (gradient,) = softmax_backward(rng.standard_normal((n, n)), saved)
    logs = np.log(np.where(weights > 0, weights, 1))
    return {
        "variance": float(s.var()),
        "entropy": float(-(weights * logs).sum(axis=1).mean()),
        "gradient": float(np.linalg.norm(gradient, axis=1).mean()),
    }


def cost(kind: str, d_k: int, n: int, rng: np.random.Generator) -> dict[str, float]:
    """Seconds and peak bytes of forward and backward."""
    grad_y, *arrays = rng.standard_normal((4, 4, n, d_k), np.float32)
    w = additive_vector(rng, d_k).astype(np.float32)

    def run() -> None:
        leaves = [Tensor(array, requires_grad=True) for array in (*arrays, w)]
        attend(kind, *leaves).backward(grad_y)

    return time_and_memory(run, rounds=5)


class Recall(Module):
    """One attention head: logits = Attention(E[asked] W^Q, E[keys] W^K, F[values]) W^O"""

    def __init__(self, kind: str, d_k: int, settings: dict, rng: np.random.Generator):
        d, n_values = settings["d_model"], settings["values"] + 1
        self.kind = kind
        self.keys = Parameter(rng.standard_normal((settings["keys"], d)))  # E
        self.values = Parameter(rng.standard_normal((n_values, d)))  # F
        self.w_q, self.w_k = (Parameter(rng.standard_normal((d, d_k)) / d**0.5) for _ in range(2))
        self.w_o = Parameter(rng.standard_normal((d, n_values)) / d**0.5)
        self.w = Parameter(additive_vector(rng, d_k)) if kind == "additive" else None
        self.parameters = ParameterVector(self, "float32", np)

    def __call__(self, keys: np.ndarray, values: np.ndarray, asked: np.ndarray) -> Tensor:
        """keys, values: ids, (B, S)   asked: ids of keys, (B, T)   logits: (B, T, number of values)"""
        q = functions.linear(functions.embedding(self.keys, ids=asked), self.w_q)
        k = functions.linear(functions.embedding(self.keys, ids=keys), self.w_k)
        return functions.linear(attend(self.kind, q, k, functions.embedding(self.values, ids=values), self.w), self.w_o)


def draw_recall(rng: np.random.Generator, settings: dict) -> tuple[np.ndarray, ...]:
    """keys, all different, and their values, (B, pairs); the same keys in another order and their values, (B, pairs)"""
    shape = settings["batch"], settings["pairs"]
    keys = rng.permuted(np.tile(np.arange(settings["keys"]), (shape[0], 1)), axis=1)[:, : shape[1]]
    values = rng.integers(1, settings["values"] + 1, size=shape)  # the loss ignores 0, which is padding
    order = rng.permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)
    return keys, values, np.take_along_axis(keys, order, axis=1), np.take_along_axis(values, order, axis=1)


def loss_and_accuracy(model: Recall, drawn: tuple[np.ndarray, ...]) -> tuple[Tensor, float]:
    """(mean cross-entropy in nats, share of the values that are right)"""
    *question, answers = drawn
    logits = model(*question)
    loss, _ = functions.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets=answers.reshape(-1))
    return loss * (1 / answers.size), float((logits.data.argmax(axis=-1) == answers).mean())


def learned(kind: str, d_k: int, updates: int, seed: int, settings: dict) -> dict:
    """Loss and accuracy on new sequences after training with each learning rate."""
    found: dict[str, list[float]] = {"loss": [], "accuracy": []}
    for rate in settings["learning_rates"]:
        rng = np.random.default_rng(seed)
        model = Recall(kind, d_k, settings, rng)

        def compute_gradients(model: Recall, rng: np.random.Generator) -> None:
            loss_and_accuracy(model, draw_recall(rng, settings))[0].backward()

        learn(model.parameters, partial(compute_gradients, model, rng), updates, rate)
        with no_grad():
            tests = [loss_and_accuracy(model, draw_recall(rng, settings)) for _ in range(20)]
        found["loss"].append(float(np.mean([loss.item() for loss, _ in tests])))
        found["accuracy"].append(float(np.mean([accuracy for _, accuracy in tests])))
    return {"scores": kind, "d_k": d_k, "updates": updates, **found}


def names(settings: dict) -> list[str]:
    sizes = product(settings["updates"], settings["d_k"], KINDS)
    return ["cost", "statistics", *(f"{kind}, {d_k}, {updates}" for updates, d_k, kind in sizes)]


def trial(name: str, seed: int, settings: dict) -> dict:
    """For ``cost`` and ``statistics``, a list over d_k of each figure and kind of score; otherwise as `learned`."""
    if name in ("cost", "statistics"):
        function, rng = {"cost": cost, "statistics": statistics}[name], np.random.default_rng(seed)
        rows = {k: [function(k, d_k, settings["positions"], rng) for d_k in settings["d_k"]] for k in KINDS}
        return {kind: {key: [each[key] for each in row] for key in row[0]} for kind, row in rows.items()}
    kind, d_k, updates = name.split(", ")
    return learned(kind, int(d_k), int(updates), seed, settings)


EXPERIMENT = Experiment("attention_scale", __doc__, SETTINGS, QUICK, names, trial, markdown)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
