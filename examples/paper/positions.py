"""Sec. 3.5 measured: sinusoids against learned positions beyond the training length, and why 10000.

    python -m examples.paper.positions            about four hours on one core; into results/positions.*
    python -m examples.paper.positions --quick    small sizes; writes nothing

A Transformer learns to copy sequences up to a length and is tested on longer ones, which it has never seen: with
learned positions, and with sinusoids PE(pos, 2i) = sin(pos / base^(2i / d_model)) of several bases. The paper's base is
10000. For each base the distances between the position vectors themselves are shown too. As a control, training
sequences begin at a random position instead of 0, the same on both sides: then every position of the test has been seen
in training, but none of its greater lengths.
"""

import math
import sys
from collections.abc import Callable

import numpy as np

from examples.paper.positions_figure import draw
from examples.paper.positions_report import PAPER_BASE, markdown
from examples.paper.trials import Experiment, learn, main
from minitransformer.autograd import Tensor, no_grad
from minitransformer.config import EOS, UNK, ModelConfig
from minitransformer.models import Transformer
from minitransformer.nn.positions import PositionedEmbedding
from minitransformer.text import Batch, pad_batch

FIRST_SYMBOL = UNK + 1  # the ids before it are PAD, BOS, EOS and UNK
SETTINGS = {
    "bases": [10, 100, 1_000, 10_000, 100_000, 1_000_000],
    "longest": 16,
    "tested": [4, 8, 12, 16, 17, 18, 20, 24, 32],
    "others": [8, 32, 64],
    "symbols": 20,
    "n_layers": 2,
    "d_model": 64,
    "d_ff": 128,
    "n_heads": 4,
    "batch": 32,
    "updates": 4000,
    "peak_rate": 0.004,
}
"""longest: training sequences have 1 to this many symbols   tested: lengths of test sequences
others: longest lengths of further trainings, tested at the same multiples of them, with updates in proportion, so that
each training length is seen equally often"""
QUICK = {"bases": [10, 10_000], "longest": 4, "tested": [4, 5, 6], "others": [8], "n_layers": 1, "d_model": 16}
QUICK |= {"updates": 5}


def draw_copy(rng: np.random.Generator, length: int, settings: dict, size: int | None = None) -> Batch:
    """Sequences of one length to be copied."""
    shape = size or settings["batch"], length
    sequences = rng.integers(FIRST_SYMBOL, FIRST_SYMBOL + settings["symbols"], shape).tolist()
    return pad_batch(sequences, sequences)


def new_model(base: int | None, seed: int, settings: dict) -> Transformer:
    """A small Transformer with sinusoids of this base, or with learned positions if it is None."""
    shape = {key: settings[key] for key in ("n_layers", "d_model", "d_ff", "n_heads")}
    positions = {"positions": "learned", "max_positions": max(settings["tested"]) + 1} if base is None else {}
    vocab_size = FIRST_SYMBOL + settings["symbols"]
    config = ModelConfig(vocab_size=vocab_size, p_drop=0.0, label_smoothing=0.0, **shape, **positions)
    model = Transformer(config, seed=seed)
    if base is not None:
        model.src_embedding.base = model.tgt_embedding.base = float(base)
    return model


def begin_at(model: Transformer, first: int) -> None:
    """From now on the first token on both sides has this position."""

    def shifted(embedding: PositionedEmbedding) -> Callable[[int, int], Tensor]:
        return lambda start, stop: PositionedEmbedding.positions(embedding, first + start, first + stop)

    for each in (model.src_embedding, model.tgt_embedding):
        each.positions = shifted(each)


def scores(model: Transformer, batch: Batch) -> dict[str, float]:
    """Shares of tokens and of whole sequences that are right, EOS included, and nats per token, given the right prefix.

    A sequence is right as a whole if greedy search would produce it: each token is right after the right ones.
    ``copied`` are the sequences whose symbols are all right if the model may choose only among symbols, and ``ended``
    those that it would end after the last symbol and nowhere before.
    """
    with no_grad():
        logits = model(batch.src, batch.tgt_in).data
        _, nll = model.loss(batch)
    best, symbols = logits.argmax(axis=-1), FIRST_SYMBOL + logits[:, :-1, FIRST_SYMBOL:].argmax(axis=-1)
    right = best == batch.tgt_out
    return {
        "tokens": float(right.mean()),
        "sequences": float(right.all(axis=1).mean()),
        "nll": nll.item() / batch.n_tgt_tokens,
        "copied": float((symbols == batch.tgt_out[:, :-1]).all(axis=1).mean()),
        "ended": float(((best == EOS) == (batch.tgt_out == EOS)).all(axis=1).mean()),
    }


def of_training(name: str, settings: dict) -> tuple[int | None, bool, dict]:
    """(base, whether sequences begin anywhere, settings) of ``KIND[, random offsets][, up to LENGTH]``"""
    kind, *rest = name.split(", ")
    longest = next(
        (int(each.removeprefix("up to ")) for each in rest if each.startswith("up to ")), settings["longest"]
    )
    ratio = longest / settings["longest"]
    changed = {"longest": longest, "tested": [math.ceil(ratio * n) for n in settings["tested"]]}
    changed["updates"] = round(ratio * settings["updates"])
    base = None if kind == "learned" else int(kind.removeprefix("base "))
    return base, "random offsets" in rest, settings | changed


def trial(name: str, seed: int, settings: dict) -> dict:
    """The `scores` at each tested length, of the model called ``name`` after training."""
    base, is_shifted, settings = of_training(name, settings)
    model, rng = new_model(base, seed, settings), np.random.default_rng((seed, 1))
    offsets = np.random.default_rng((seed, 2))  # their own stream: the sequences are the same without them

    def compute_gradients() -> None:
        batch = draw_copy(rng, int(rng.integers(1, settings["longest"] + 1)), settings)
        if is_shifted:
            begin_at(model, int(offsets.integers(max(settings["tested"]) - settings["longest"] + 1)))
        loss, _ = model.loss(batch)
        loss.backward(1 / batch.n_tgt_tokens)

    learn(model.parameters, compute_gradients, settings["updates"], settings["peak_rate"])
    begin_at(model, 0)
    tests = [scores(model, draw_copy(rng, length, settings, size=200)) for length in settings["tested"]]
    return {"base": base, **{key: [each[key] for each in tests] for key in tests[0]}}


def names(settings: dict) -> list[str]:
    kinds = ["learned", *(f"base {base}" for base in settings["bases"])]
    control = f"base {PAPER_BASE}, random offsets"
    others = [f"{kind}, up to {n}" for n in settings["others"] for kind in (f"base {PAPER_BASE}", control)]
    return [*kinds, "learned, random offsets", control, *others]


EXPERIMENT = Experiment("positions", __doc__, SETTINGS, QUICK, names, trial, markdown, draw)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
