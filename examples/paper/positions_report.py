"""The page of positions.py, and the distances between sinusoids."""

from collections.abc import Sequence

import numpy as np

from examples.paper.seeds import VERDICTS, WELCH, compare, relation, values_of, with_error
from examples.paper.trials import provenance
from examples.report import markdown_table, page
from minitransformer.nn.positions import sinusoids

PAPER_BASE = 10_000
FEW = 0.01
"""Of sequences: 1 in 100 right as a whole is not chance, which is 1 in 20 for each symbol."""
N_POSITIONS, D_MODEL = 5000, 512
"""Of the distances: the paper's d_model, and the length to which its authors' successors tabulate positions."""


def distances(base: float, n: int = N_POSITIONS, d_model: int = D_MODEL) -> np.ndarray:
    """||PE(pos + k) - PE(pos)|| for k = 0..n-1, whatever pos is: a shift is a rotation."""
    vectors = sinusoids(0, n, d_model, base)
    return np.linalg.norm(vectors - vectors[0], axis=1)


def cosines(base: float, n: int = N_POSITIONS, d_model: int = D_MODEL) -> np.ndarray:
    """The cosine between the vectors of two positions k = 0..n-1 apart; all vectors have norm sqrt(d_model / 2)."""
    vectors = sinusoids(0, n, d_model, base)
    return vectors @ vectors[0] / (d_model / 2)


def lengths_seen(results: Sequence[dict]) -> np.ndarray:
    """Which of the tested lengths are no longer than those of training."""
    settings = results[0]["settings"]
    return np.array(settings["tested"]) <= settings["longest"]


def mean_score(results: Sequence[dict], key: str, base: int | None, lengths: np.ndarray) -> np.ndarray:
    """Mean over some of the tested lengths, one value a seed."""
    return values_of(results, key, base=base)[:, lengths].mean(axis=1)


def tokens_right(results: Sequence[dict], base: int | None) -> np.ndarray:
    """How many tokens of a sequence are right, the end mark counted, for each tested length, (seeds, lengths)."""
    return values_of(results, "tokens", base=base) * (np.array(results[0]["settings"]["tested"]) + 1)


def reach(results: Sequence[dict], base: int | None) -> int:
    """The greatest tested length at which at least `FEW` of the sequences are right as a whole, or 0."""
    tested, shares = results[0]["settings"]["tested"], values_of(results, "sequences", base=base).mean(axis=0)
    return max([n for n, share in zip(tested, shares, strict=True) if share >= FEW], default=0)


def whole(results: Sequence[dict], length: int, bases: Sequence[int | None]) -> str:
    """The share of sequences of a tested length that are right as a whole."""
    column = results[0]["settings"]["tested"].index(length)
    shares = {base: values_of(results, "sequences", base=base)[:, column].mean() for base in bases}
    return f"{length} symbols: {', '.join(f'{label(base)} {share:.1%}' for base, share in shares.items())}"


def verdicts(results: Sequence[dict]) -> list[list[str]]:
    """Claims, what was measured, verdicts."""
    settings, seen = results[0]["settings"], lengths_seen(results)
    near = [mean_score(results, "tokens", base, seen) for base in (PAPER_BASE, None)]
    is_open = f"open: {len(near[0])} seeds do not tell them apart"
    trained, longer = settings["longest"], [n for n in settings["tested"] if n > settings["longest"]]
    ours, learned = (max(reach(results, base) - trained, 0) for base in (PAPER_BASE, None))
    nlls = {base: mean_score(results, "nll", base, seen) for base in settings["bases"]}
    best = min(nlls, key=lambda base: nlls[base].mean())
    agrees = "agrees" if ours >= trained else "agrees in part" if ours > learned else "does not agree"
    return [
        [
            f"learned positions are as good as sinusoids (Table 3, row E), up to {trained} symbols",
            f"tokens right: base 10,000 {with_error(near[0], 3)}, learned {with_error(near[1], 3)}",
            f"sinusoids are {relation(*near)} learned positions" if compare(*near) else is_open,
        ],
        [
            "sinusoids may extrapolate to longer sequences (sec. 3.5)",
            f"whole sequences right: {'; '.join(whole(results, n, (None, PAPER_BASE, best)) for n in longer[:2])}",
            f"{agrees}: base 10,000 reaches {ours} symbols beyond training, learned positions {learned}",
        ],
        [
            "10000 is a good base",
            f"nats per token up to {trained} symbols: base 10,000 {with_error(nlls[PAPER_BASE], 3)},"
            f" the lowest, of {label(best)}, {with_error(nlls[best], 3)}",
            f"higher than with {label(best)}" if compare(nlls[PAPER_BASE], nlls[best]) > 0 else is_open,
        ],
    ]


def limits(results: Sequence[dict]) -> str:
    """What else may have kept the models from longer sequences."""
    trained, updates = results[0]["settings"]["longest"], results[0]["settings"]["updates"]
    return (
        f"A length is reached if {FEW:.0%} of its sequences are right as a whole. The models are under-trained"
        f" ({whole(results, trained, (None, PAPER_BASE))}): training has that length in one update of {trained}, so"
        f" that {updates:,} updates measure learning as much as extrapolation. And the end mark counts: in training it"
        f" never follows more than {trained} symbols, and a model that stops there fails longer sequences, whatever its"
        " positions."
    )


def markdown(results: Sequence[dict]) -> str:
    settings, seen = results[0]["settings"], lengths_seen(results)
    bases, longest = [None, *settings["bases"]], settings["tested"][-1]
    blocks = [
        "# Sinusoids, learned positions, and the base 10000",
        markdown_table(VERDICTS, verdicts(results)),
        limits(results),
        provenance("positions", results, WELCH),
    ]
    for key, what in (("sequences", "whole sequences"), ("tokens", "tokens")):
        rows = [
            [label(base), *(with_error(100 * column, 1) for column in values_of(results, key, base=base).T)]
            for base in bases
        ]
        blocks += [
            f"Share of {what} predicted right, %, the end mark included, given the right tokens before, against the"
            f" length; trained on lengths 1 to {settings['longest']}:",
            markdown_table(["positions", *map(str, settings["tested"])], rows),
        ]
    head = ["positions", "nats per token", "whole sequences right", f"tokens right of {longest + 1}"]
    head += ["distance of neighbours", "cosine of neighbours", "smallest distance of any two", "at offset"]
    rows = [
        [label(base)]
        + [with_error(mean_score(results, key, base, seen), n) for key, n in (("nll", 4), ("sequences", 3))]
        + [with_error(tokens_right(results, base)[:, -1], 1)]
        + (["", "", "", ""] if base is None else geometry(base))
        for base in bases
    ]
    return page(
        *blocks,
        "Mean over the lengths seen in training, tokens right at the greatest length, and the vectors themselves, for"
        f" d_model = {D_MODEL} and positions 0 to {N_POSITIONS - 1}:",
        markdown_table(head, rows),
    )


def geometry(base: int) -> list[str]:
    """The four last columns of the table."""
    apart = distances(base)
    nearest = 1 + int(apart[1:].argmin())
    return [f"{apart[1]:.3f}", f"{cosines(base, 2)[1]:.4f}", f"{apart[nearest]:.3f}", str(nearest)]


def label(base: int | None) -> str:
    return "learned" if base is None else f"base {base:,}"
