"""The page of long_range.py."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from examples.paper.seeds import (
    LEVEL,
    MCNEMAR,
    SOLVED,
    VERDICTS,
    at_best_rate,
    n_solved,
    p_alike,
    p_of_signs,
    signs,
    solved,
    solved_share,
    values_of,
)
from examples.paper.trials import provenance
from examples.report import markdown_table, page

SHORT_PATHS = "self-attention", "recurrent with attention", "dilated convolutional"
"""Paths of one step, and of log_k n steps for dilated convolutions  [Table 1]."""
OTHER = "self-attention"
GUESSING = 0.05
"""A model whose accuracy differs by less than this from chance has learned nothing."""


def reach(results: Sequence[dict], kind: str) -> int:
    """The largest of the distances over which there is a path, by the gradient, or 0."""
    distances = results[0]["settings"]["distances"]
    return max([d for d in distances if values_of(results, "share", kind=kind, distance=d).max() > 0] + [0])


def accuracies(results: Sequence[dict], kind: str) -> np.ndarray:
    """Of each distance and seed, (distances, seeds)"""
    distances = results[0]["settings"]["distances"]
    return np.array([at_best_rate(results, "accuracy", kind=kind, distance=distance) for distance in distances])


def compared(results: Sequence[dict]) -> dict[tuple, int]:
    """1, -1 or 0 for solved more often, less often or not significantly different, with one correction for all.

    (kind,) is compared with self-attention, over all seeds and distances; (kind, distance, next distance) is there
    where the greater distance was solved more often.
    """
    settings, apart = results[0]["settings"], {}
    ours = solved(accuracies(results, OTHER))
    for kind in settings["kinds"]:
        theirs = solved(accuracies(results, kind))
        if kind != OTHER:
            apart[kind,] = (theirs - ours).ravel()
        for (near, each), (far, farther) in pairwise(zip(settings["distances"], theirs, strict=True)):
            if each.sum() < farther.sum():
                apart[kind, near, far] = each - farther
    return dict(zip(apart, signs([*apart.values()], [*map(p_of_signs, apart.values())]), strict=True))


def verdicts(results: Sequence[dict]) -> list[list[str]]:
    """Claims of sec. 4, what was measured, verdicts."""
    settings, rows = results[0]["settings"], []
    distances, chance = np.array(settings["distances"]), 1 / settings["symbols"]
    answers = {-1: "agrees", 0: "open: not significantly different", 1: "does not agree"}
    found = {kind: accuracies(results, kind) for kind in settings["kinds"]}
    for (kind, *pair), sign in compared(results).items():
        if pair:
            near, far = (n_solved(found[kind][settings["distances"].index(each)]) for each in pair)
            shown = f"seeds of {kind} that solved the task: {near} at {pair[0]}, {far} at {pair[1]}"
            rows.append(["greater distances are learned less often", shown, answers[-sign]])
        elif kind not in SHORT_PATHS and reach(results, kind) == distances[-1]:
            counts = ", ".join(f"{each} {n_solved(found[each].ravel())}" for each in (kind, OTHER))
            shown = f"trainings that solved the task, over all distances: {counts}"
            rows.append(["long paths are learned less often", shown, answers[sign]])
    beyond = np.concatenate([found[kind][distances > reach(results, kind)] for kind in found])
    if beyond.size:
        is_chance = all(p_alike(each - chance, GUESSING) < LEVEL for each in beyond)
        rows.append([f"without a path nothing is learned: within {100 * GUESSING:.0f} percentage points of chance"])
        rows[-1] += [f"at most {beyond.mean(axis=1).max():.0%} of the symbols right, by chance {chance:.0%}"]
        rows[-1] += ["agrees" if is_chance else "open: not shown to be equivalent to chance"]
    return rows


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    distances, kinds = settings["distances"], list(settings["kinds"])
    told, words, rows = compared(results), {-1: "fewer", 0: "not significantly different", 1: "more"}, []
    for kind in kinds:
        one = next(result for result in results if result["kind"] == kind)
        shape = ", ".join(f"{key} {value}" for key, value in settings["kinds"][kind].items() if key != "kind")
        found = accuracies(results, kind)
        cells = [f"{solved_share(each)}, {np.median(each):.2f}" for each in found]
        beside = words[told[kind,]] if kind != OTHER else ""
        first = [f"{kind} ({shape})", str(one["width"]), f"{one['parameters']:,}"]
        rows.append([*first, *cells, n_solved(found.ravel()), beside])
    head = ["layers", "width", "parameters", *map(str, distances), "all", "compared with self-attention"]
    shares = [[kind, *(gradient_share(results, kind, distance) for distance in distances)] for kind in kinds]
    return page(
        "# Copying over a distance",
        markdown_table(VERDICTS, verdicts(results)),
        provenance("long_range", results, MCNEMAR, ["kinds"]),
        f"Seeds that copy at least {SOLVED:.0%} of the symbols correctly, with the exact 95 % confidence interval of"
        " their share, and the median accuracy, for each distance. Each seed at each distance is a pair in the"
        " comparison with self-attention.",
        markdown_table(head, rows),
        "Share of the gradient that arrives at the copied symbol before any update (0: there is no path):",
        markdown_table(["layers", *map(str, distances)], shares),
    )


def gradient_share(results: Sequence[dict], kind: str, distance: int) -> str:
    share = values_of(results, "share", kind=kind, distance=distance).mean()
    return f"{share:.1e}" if share else "0"
