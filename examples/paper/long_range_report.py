"""The page of long_range.py."""

from collections.abc import Sequence

import numpy as np

from examples.paper.seeds import (
    FISHER,
    SOLVED,
    VERDICTS,
    at_best_rate,
    compare_solved,
    n_solved,
    values_of,
)
from examples.paper.trials import provenance
from examples.report import markdown_table, page

SHORT_PATHS = "self-attention", "recurrent with attention", "dilated convolutional"
"""One step, and log_k n steps of the dilated ones  [Table 1]."""


def reach(results: Sequence[dict], kind: str) -> int:
    """The largest of the distances over which there is a path, by the gradient, or 0."""
    distances = results[0]["settings"]["distances"]
    return max([d for d in distances if values_of(results, "share", kind=kind, distance=d).max() > 0] + [0])


def accuracies(results: Sequence[dict], kind: str) -> np.ndarray:
    """Of each distance and seed, (distances, seeds)"""
    distances = results[0]["settings"]["distances"]
    return np.array([at_best_rate(results, "accuracy", kind=kind, distance=distance) for distance in distances])


def beside_self_attention(results: Sequence[dict], kind: str) -> int:
    """1 if the layers have solved more of the trainings of all distances than self-attention, -1 if fewer, or 0."""
    return compare_solved(accuracies(results, kind).ravel(), accuracies(results, "self-attention").ravel())


def verdicts(results: Sequence[dict]) -> list[list[str]]:
    """Claims of sec. 4, what was measured, verdicts."""
    settings, rows = results[0]["settings"], []
    ours, distances = n_solved(accuracies(results, "self-attention").ravel()), np.array(settings["distances"])
    answers = {-1: "agrees", 0: "open: not told apart", 1: "does not agree"}
    for kind in settings["kinds"]:
        if kind not in SHORT_PATHS and reach(results, kind) == distances[-1]:
            theirs = n_solved(accuracies(results, kind).ravel())
            found = f"solved trainings of all distances: {kind} {theirs}, self-attention {ours}"
            rows.append(["long paths are learned less often", found, answers[beside_self_attention(results, kind)]])
    beyond = [accuracies(results, kind)[distances > reach(results, kind)].mean(axis=1) for kind in settings["kinds"]]
    if (means := np.concatenate(beyond)).size:
        found = f"at most {means.max():.0%} of the symbols right, by chance {1 / settings['symbols']:.0%}"
        rows.append(
            ["without a path nothing is learned", found, "agrees" if means.max() < SOLVED else "does not agree"]
        )
    for kind in settings["kinds"]:
        solved = (accuracies(results, kind) >= SOLVED).sum(axis=1)
        for i, distance in enumerate(distances):
            if solved[i] < solved[i:].max():
                found = f"{kind}: {solved[i]} solved seeds at {distance}, {solved[i:].max()} at a greater distance"
                rows.append(["greater distances are learned less often", found, "does not agree"])
    return rows


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    distances, kinds = settings["distances"], list(settings["kinds"])
    short = {key: value for key, value in settings.items() if key != "kinds"}
    words, rows = {-1: "fewer", 0: "not told apart", 1: "more"}, []
    for kind in kinds:
        one = next(result for result in results if result["kind"] == kind)
        shape = ", ".join(f"{key} {value}" for key, value in settings["kinds"][kind].items() if key != "kind")
        found = accuracies(results, kind)
        cells = [f"{n_solved(each)} ({np.median(each):.2f})" for each in found]
        beside = words[beside_self_attention(results, kind)] if kind != "self-attention" else ""
        first = [f"{kind} ({shape})", str(one["width"]), f"{one['parameters']:,}"]
        rows.append([*first, *cells, n_solved(found.ravel()), beside])
    head = ["layers", "width", "parameters", *map(str, distances), "all", "beside self-attention"]
    shares = [[kind, *(gradient_share(results, kind, distance) for distance in distances)] for kind in kinds]
    return page(
        "# Copying over a distance",
        markdown_table(VERDICTS, verdicts(results)),
        provenance("long_range", [result | {"settings": short} for result in results], FISHER),
        f"Seeds that copy at least {SOLVED:.0%} of the symbols right, and the median share of the seeds, against the"
        " distance:",
        markdown_table(head, rows),
        "Share of the gradient that arrives at the copied symbol before any update; 0: there is no path:",
        markdown_table(["layers", *map(str, distances)], shares),
    )


def gradient_share(results: Sequence[dict], kind: str, distance: int) -> str:
    share = values_of(results, "share", kind=kind, distance=distance).mean()
    return f"{share:.1e}" if share else "0"
