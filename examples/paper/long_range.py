"""Sec. 4 measured: copying symbols over a growing distance, by layers with long and short paths.

    python -m examples.paper.long_range            about half an hour on two cores; into results/long_range.*
    python -m examples.paper.long_range --quick    small sizes; writes nothing

A sequence begins with a few marked symbols, continues with unmarked ones, and ends with as many positions at which the
marked symbols must be named in their order, each over the same distance. A stack of layers reads the sequence, and the
last positions of its output give the logits, so that whatever the layers do not carry there is lost. All stacks have
about the same number of parameters, and learn each distance from scratch with the same number of updates, at the best
of the learning rates. How much of the gradient at the last position arrives at the symbol that is copied there, before
any update, makes the path length visible: it is zero if there is no path.
"""

import sys
from functools import partial

import numpy as np

from examples.paper.long_range_report import markdown
from examples.paper.models.convolution import ConvolutionalEncoder, ConvolutionConfig
from examples.paper.models.restricted_attention import restrict
from examples.paper.trials import Experiment, learn, main
from minitransformer.autograd import Tensor, functions, no_grad
from minitransformer.config import ModelConfig
from minitransformer.nn import Module, Parameter, ParameterVector
from minitransformer.nn.encoder import Encoder
from minitransformer.nn.module import unshared_parameters
from minitransformer.nn.positions import sinusoids
from minitransformer.nn.randomness import Initializer, ShapesOnly
from minitransformer.nn.recurrent import DotAttention, RecurrentEncoder

SETTINGS = {
    "kinds": {
        "recurrent": {"kind": "recurrent", "n_layers": 2, "attention": "none"},
        "recurrent with attention": {"kind": "recurrent", "n_layers": 2, "attention": "dot"},
        "convolutional": {"n_layers": 4, "encoder": "convolution", "kernel_size": 5},
        "dilated convolutional": {"n_layers": 4, "encoder": "convolution", "kernel_size": 5, "dilation": 3},
        "restricted self-attention": {"n_layers": 4, "attention_window": 4},
        "self-attention": {"n_layers": 4},
    },
    "distances": [4, 8, 16, 32, 64],
    "parameters": 50_000,
    "symbols": 16,
    "copied": 4,
    "batch": 32,
    "updates": 400,
    "learning_rates": [0.001, 0.003, 0.01, 0.03],
}
QUICK = {"distances": [4, 6], "parameters": 4000, "updates": 3, "learning_rates": [0.004]}


class Copier(Module):
    """logits_t = F h_t,   h = stack(E[ids] + positions); the stack is an encoder of this width.

    With attention in addition to recurrence, h_t is replaced by tanh([c; h_t] W_c), where c is what h_t attends to in
    all of h  [Luong et al. 2015, eq. 5, 7]. A recurrent stack needs no positions.
    """

    def __init__(self, kind: dict, width: int, settings: dict, init: Initializer):
        n_symbols, self.copied = settings["symbols"], settings["copied"]
        self.is_recurrent = "kind" in kind
        shape = {} if self.is_recurrent else {"d_ff": 2 * width, "n_heads": 4}
        shape |= {"d_model": width, "p_drop": 0.0}
        self.embedding = Parameter(init.normal(2 + 2 * n_symbols, width))  # E
        self.output = Parameter(init.normal(1 + n_symbols, width))  # F
        self.encoder = make_encoder(kind, shape, init)
        attends = self.is_recurrent and kind["attention"] == "dot"
        self.attention = DotAttention(ModelConfig(**kind, **shape), init) if attends else None
        self.w_c = Parameter(init.xavier(2 * width, width)) if self.attention else None

    def embed(self, ids: np.ndarray) -> Tensor:
        """E[ids], scaled as in sec. 3.4, (B, n) to (B, n, d_model)"""
        return functions.embedding(self.embedding, ids=ids, scale=self.embedding.shape[1] ** 0.5)

    def logits(self, embedded: Tensor) -> Tensor:
        """At the positions of the copy, (B, n, d_model) to (B, copied, 1 + symbols)"""
        n_sequences, n, d_model = embedded.shape
        mask = np.ones((n_sequences, n), bool)
        if self.is_recurrent:
            hidden = self.encoder(embedded, mask)
        else:
            positions = Tensor(sinusoids(0, n, d_model).astype(np.float32))
            hidden = self.encoder(embedded + positions, mask[:, None, None])
        last = hidden[:, -self.copied :]
        if self.attention:
            both = functions.concatenate([self.attention(last, mask[:, None], hidden), last])
            last = functions.tanh(functions.linear(both, self.w_c))
        return functions.linear(last, self.output.transpose())


def make_encoder(kind: dict, shape: dict, init: Initializer) -> Module:
    """The stack of layers of this kind"""
    layers = {name: value for name, value in kind.items() if name not in ("encoder", "attention_window")}
    if "kind" in kind:
        return RecurrentEncoder(ModelConfig(**kind, **shape), init)
    if "encoder" in kind:
        return ConvolutionalEncoder(ConvolutionConfig(**layers, **shape), init)
    encoder, r = Encoder(ModelConfig(**layers, **shape), init), kind.get("attention_window")
    return restrict(encoder, (r, r)) if r else encoder


def draw_sequences(rng: np.random.Generator, distance: int, settings: dict) -> tuple[np.ndarray, np.ndarray]:
    """ids, (B, distance + copied), and the answers at the last positions, (B, copied)

    Unmarked symbols have ids 1 to ``symbols`` (the loss takes 0 for padding). Marked ones, which come first, have ids
    that are larger by ``symbols``. The highest id, which comes last, asks for the copy.
    """
    n_symbols, size, copied = settings["symbols"], settings["batch"], settings["copied"]
    ids = rng.integers(1, n_symbols + 1, (size, distance + copied))
    answers = ids[:, :copied].copy()
    ids[:, :copied] += n_symbols
    ids[:, -copied:] = 2 * n_symbols + 1
    return ids, answers


def mean_loss(logits: Tensor, answers: np.ndarray) -> Tensor:
    """Nats per symbol.   logits: (B, copied, 1 + symbols)   answers: (B, copied)"""
    loss, _ = functions.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets=answers.reshape(-1))
    return loss * (1 / answers.size)


def width_for(kind: dict, settings: dict) -> int:
    """The multiple of 4 at which the number of parameters is nearest to the one set for all stacks."""
    shapes = {width: unshared_parameters(Copier(kind, width, settings, ShapesOnly())) for width in range(8, 129, 4)}
    counts = {width: sum(each.data.size for each in parameters.values()) for width, parameters in shapes.items()}
    return min(counts, key=lambda width: abs(counts[width] - settings["parameters"]))


def share_from_source(model: Copier, ids: np.ndarray, answers: np.ndarray, distance: int) -> float:
    """The share of the copied symbol in the gradient of the loss at the last position with respect to all embedded
    symbols, by norms."""
    embedded = Tensor(model.embed(ids).data, requires_grad=True)
    mean_loss(model.logits(embedded)[:, -1:], answers[:, -1:]).backward()
    norms = np.linalg.norm(embedded.grad, axis=(0, 2))  # (n,)
    return float(norms[-1 - distance] / norms.sum())


def trial(name: str, seed: int, settings: dict) -> dict:
    """Accuracy and loss on new sequences after training with each learning rate."""
    kind, distance = name.split(", ")
    layers, distance = settings["kinds"][kind], int(distance)
    width = width_for(layers, settings)
    found = {"kind": kind, "distance": distance, "width": width, "accuracy": [], "loss": []}
    for rate in settings["learning_rates"]:
        rng, model = np.random.default_rng((seed, 1)), Copier(layers, width, settings, Initializer(seed))
        parameters = ParameterVector(model, "float32", np)
        found["parameters"] = parameters.count
        found["share"] = share_from_source(model, *draw_sequences(rng, distance, settings), distance)

        def compute_gradients(model: Copier, rng: np.random.Generator) -> None:
            ids, answers = draw_sequences(rng, distance, settings)
            mean_loss(model.logits(model.embed(ids)), answers).backward()

        learn(parameters, partial(compute_gradients, model, rng), settings["updates"], rate)
        with no_grad():
            ids, answers = draw_sequences(rng, distance, settings | {"batch": 500})
            logits = model.logits(model.embed(ids))
        found["accuracy"].append(float((logits.data.argmax(axis=-1) == answers).mean()))
        found["loss"].append(mean_loss(logits, answers).item())
    return found


def names(settings: dict) -> list[str]:
    return [f"{kind}, {distance}" for distance in settings["distances"] for kind in settings["kinds"]]


EXPERIMENT = Experiment("long_range", __doc__, SETTINGS, QUICK, names, trial, markdown)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
