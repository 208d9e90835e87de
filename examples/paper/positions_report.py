"""The page of positions.py, and the distances between sinusoids."""

from collections.abc import Sequence

import numpy as np

from examples.paper.seeds import (
    LEVEL,
    NOT_ALIKE,
    STUDENT,
    VERDICTS,
    holm,
    p_alike,
    paired,
    signs,
    values_of,
    with_error,
)
from examples.paper.table3_report import SEPARATED as ALIKE  # nats per token, within which positions are equivalent
from examples.paper.trials import provenance
from examples.report import markdown_table, page
from minitransformer.nn.positions import sinusoids

PAPER_BASE = 10_000
OURS, CONTROL = f"base {PAPER_BASE}", f"base {PAPER_BASE}, random offsets"
FEW = 0.01
"""Of sequences: 1 in 100 right as a whole is not chance, which is 1 in 20 for each symbol."""
N_POSITIONS, D_MODEL = 5000, 512
"""For the distances: the length to which successors of the authors tabulate positions, and the paper's d_model."""


def distances(base: float, n: int = N_POSITIONS, d_model: int = D_MODEL) -> np.ndarray:
    """||PE(pos + k) - PE(pos)|| for k = 0..n-1, whatever pos is: a shift is a rotation."""
    vectors = sinusoids(0, n, d_model, base)
    return np.linalg.norm(vectors - vectors[0], axis=1)


def lengths_seen(results: Sequence[dict]) -> np.ndarray:
    """Which of the tested lengths are no longer than those seen in training."""
    settings = results[0]["settings"]
    return np.array(settings["tested"]) <= settings["longest"]


def loss_seen(results: Sequence[dict], name: str) -> np.ndarray:
    """Nats per token, the mean over the lengths seen in training, one value per seed."""
    return values_of(results, "nll", name=name)[:, lengths_seen(results)].mean(axis=1)


def whole(results: Sequence[dict], name: str) -> np.ndarray:
    """The share of sequences that are right as a whole, for each tested length."""
    return values_of(results, "sequences", name=name).mean(axis=0)


def beyond(results: Sequence[dict], name: str) -> int:
    """How many symbols more than in training at least `FEW` of the sequences have that are right as a whole."""
    settings, shares = results[0]["settings"], whole(results, name)
    reached = [n for n, share in zip(settings["tested"], shares, strict=True) if share >= FEW]
    return max(max(reached, default=0) - settings["longest"], 0)


def shares_at(results: Sequence[dict], lengths: Sequence[int], names: Sequence[str]) -> str:
    """As ``17 symbols: learned 0.3%, base 10000 28.2%; 18 symbols: ...``"""
    columns = {n: results[0]["settings"]["tested"].index(n) for n in lengths}
    shares = {n: [f"{name} {whole(results, name)[i]:.1%}" for name in names] for n, i in columns.items()}
    return "; ".join(f"{n} symbols: {', '.join(each)}" for n, each in shares.items())


def verdicts(results: Sequence[dict]) -> list[list[str]]:
    """Claims, what was measured, verdicts: of the loss within the lengths of training, and of longer sequences."""
    settings = results[0]["settings"]
    trained, others = settings["longest"], ["learned", *(f"base {base}" for base in settings["bases"])]
    others.remove(OURS)
    losses = {name: loss_seen(results, name) for name in (OURS, *others)}
    apart = [losses[name] - losses[OURS] for name in others]
    told = dict(zip(others, signs(apart, [paired(each)[1] for each in apart]), strict=True))
    alike = dict(zip(others, holm([p_alike(each, ALIKE) for each in apart]) < LEVEL, strict=True))
    best = min(others[1:], key=lambda name: losses[name].mean())
    lower = [name for name in others[1:] if told[name] < 0 and not alike[name]]
    of_base = f"does not agree: lower with {', '.join(lower)}" if lower else NOT_ALIKE
    of_learned = {1: "does not agree: worse", -1: "does not agree: better"}.get(told["learned"], NOT_ALIKE)
    return [
        [
            f"learned positions and sinusoids are equivalent (Table 3, row E), up to {trained} symbols, ±{ALIKE} nats",
            f"learned positions {with_error(apart[0], 3)} nats per token above {OURS}",
            "agrees" if alike["learned"] else of_learned,
        ],
        [
            f"10000 is a good base: no other is better by {ALIKE} nats",
            f"nats per token up to {trained} symbols: {OURS} {with_error(losses[OURS], 3)},"
            f" the lowest of the other bases, {best}, {with_error(losses[best], 3)}",
            "agrees" if all(alike[name] or told[name] > 0 for name in others[1:]) else of_base,
        ],
        *longer_verdicts(results, best),
    ]


def longer_verdicts(results: Sequence[dict], best: str) -> list[list[str]]:
    """The claim on sequences longer than those of training, tested at the first such length, and the control."""
    settings = results[0]["settings"]
    trained, longer = settings["longest"], [n for n in settings["tested"] if n > settings["longest"]][:2]
    ours, learned = (values_of(results, "sequences", name=name) for name in (OURS, "learned"))
    apart = (ours - learned)[:, settings["tested"].index(longer[0])]
    (sign,) = signs([apart], [paired(apart)[1]])
    reached = {name: beyond(results, name) for name in (OURS, "learned")}
    is_far = "agrees" if reached[OURS] >= trained else "agrees in part"
    found = ", ".join(f"{name} {n}" for name, n in reached.items())
    verdict = {1: is_far, 0: "open: not significantly different", -1: "does not agree"}[sign]
    shown = "whole sequences right: "
    return [
        [
            "sinusoids may extrapolate to sequences longer than those seen in training (sec. 3.5)",
            shown + shares_at(results, longer, ("learned", OURS, best)),
            f"{verdict}; symbols reached beyond training: {found}",
        ],
        [
            "control: every position is seen in training, but no longer sequence",
            shown + shares_at(results, longer, (CONTROL,)),
            f"symbols reached beyond training: {beyond(results, CONTROL)}",
        ],
    ]


def names_of(results: Sequence[dict]) -> list[str]:
    """The trainings in the order in which they were asked for."""
    return list(dict.fromkeys(result["name"] for result in results))


def limits(results: Sequence[dict]) -> str:
    """What else may have kept the models from copying longer sequences."""
    settings = results[0]["settings"]
    trained, updates = settings["longest"], settings["updates"]
    return (
        f"A length is reached if {FEW:.0%} of its sequences are right as a whole. One update in {trained} has the"
        f" longest training length, and after {updates:,} updates this share of its sequences is right:"
        f" {shares_at(results, [trained], ('learned', OURS))}. What is missing there is learning, not extrapolation."
        f" The end mark matters too: in training it never follows more than {trained} symbols, and a model that stops"
        " there fails on longer sequences, whatever its positions. So the picture, and the second table, leave it out."
        " Trainings up to other lengths have updates in proportion. The comparisons of losses with base 10000 are"
        f" corrected together; the comparison on longer sequences is one more test, at {trained + 1} symbols."
    )


TABLES = {
    "sequences": "whole sequences right, including the end mark",
    "copied": "sequences whose symbols are all right if the model chooses only among symbols",
    "ended": "sequences that end after the last symbol and nowhere before",
    "tokens": "tokens right, including the end mark",
}
"""Shares of which the page has a table."""


def share_table(results: Sequence[dict], key: str) -> list[str]:
    """What one of `TABLES` is about, and the table."""
    settings = results[0]["settings"]
    rows = [
        [name, *(with_error(100 * column, 1) for column in values_of(results, key, name=name).T)]
        for name in names_of(results)
    ]
    head = [f"{n / settings['longest']:g}" for n in settings["tested"]]
    about = (
        f"{TABLES[key].capitalize()}, %, given the right preceding tokens, by length / longest training length, which"
        f" is {settings['longest']} unless stated otherwise:"
    )
    return [about, markdown_table(["positions", *head], rows)]


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    head = ["positions", "nats per token, training lengths", "distance of neighbors", "cosine of neighbors"]
    rows = [
        [f"base {base}", with_error(loss_seen(results, f"base {base}"), 4), *geometry(base)]
        for base in settings["bases"]
    ]
    rows.insert(0, ["learned", with_error(loss_seen(results, "learned"), 4), *[""] * 4])
    return page(
        "# Sinusoids, learned positions, and the base 10000",
        markdown_table(VERDICTS, verdicts(results)),
        "![Sequences that are copied, by length](positions.png)",
        limits(results),
        provenance("positions", results, STUDENT),
        *(block for key in TABLES for block in share_table(results, key)),
        f"The position vectors themselves, for d_model = {D_MODEL} and positions 0 to {N_POSITIONS - 1}:",
        markdown_table([*head, "smallest distance between any two", "at offset"], rows),
    )


def geometry(base: int) -> list[str]:
    """The last four columns of the table."""
    apart = distances(base)
    nearest = 1 + int(apart[1:].argmin())
    cosine = 1 - apart[1] ** 2 / D_MODEL  # by the law of cosines: all vectors have norm sqrt(D_MODEL / 2)
    return [f"{apart[1]:.3f}", f"{cosine:.4f}", f"{apart[nearest]:.3f}", str(nearest)]
