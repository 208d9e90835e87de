"""The table and the picture of long_range.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from seeds import at_best_rate, compare, standard_error, values_of, with_error
from trials import COLOURS, provenance

from benchmarks.common.tables import markdown_table
from minitransformer.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED = 0.9
"""Mean accuracy from which on a distance counts as learned."""


SHORT_PATHS = "recurrent with attention", "dilated convolutional"
"""Beside self-attention: one step, and log_k n steps  [Table 1]."""


def reach(results: Sequence[dict], kind: str) -> int:
    """The largest of the distances over which there is a path, by the gradient, or 0."""
    distances = results[0]["settings"]["distances"]
    return max([d for d in distances if values_of(results, "share", kind=kind, distance=d).max() > 0] + [0])


def distances_learned(results: Sequence[dict], kind: str) -> list[int]:
    """The distances over which accuracy is at least LEARNED on average."""
    distances = results[0]["settings"]["distances"]
    return [d for d in distances if at_best_rate(results, "accuracy", kind=kind, distance=d).mean() >= LEARNED]


def verdict(results: Sequence[dict]) -> str:
    """What agrees with sec. 4 and what does not."""
    settings = results[0]["settings"]
    kinds, last = settings["kinds"], settings["distances"][-1]
    found = {kind: distances_learned(results, kind) for kind in kinds}
    listed = "; ".join(f"{kind} {', '.join(map(str, found[kind])) or 'none'}" for kind in kinds)
    cut_off = [kind for kind in kinds if reach(results, kind) < last]
    text = f"The distances over which at least {LEARNED:.0%} of the symbols are copied right: {listed}."
    if cut_off:
        beyond = max(
            at_best_rate(results, "accuracy", kind=kind, distance=distance).mean()
            for kind in cut_off
            for distance in settings["distances"]
            if distance > reach(results, kind)
        )
        chance = 1 / settings["symbols"]
        text += f" Where there is no path at all, at most {beyond:.0%} are right (chance: {chance:.0%})."
    if not any(found.values()):
        return text + " No distance was learned, so that nothing can be said of sec. 4."
    for kind, its in found.items():
        for gap in [d for d in settings["distances"] if d < max(its, default=0) and d not in its]:
            failed = at_best_rate(results, "accuracy", kind=kind, distance=gap) < LEARNED
            text += f" With {kind}, {gap} was not learned in {failed.sum()} of {len(failed)} seeds."
    return f"{text} {comparison(results, last)}"


def comparison(results: Sequence[dict], distance: int) -> str:
    """How accurate the others are beside self-attention over this distance, and whether that is as in sec. 4."""
    others = [kind for kind in results[0]["settings"]["kinds"] if kind != "self-attention"]
    ours = at_best_rate(results, "accuracy", kind="self-attention", distance=distance)
    signs = {kind: compare(at_best_rate(results, "accuracy", kind=kind, distance=distance), ours) for kind in others}
    groups = {
        "less accurate": [kind for kind in others if signs[kind] < 0],
        "not distinguishable": [kind for kind in others if signs[kind] == 0],
        "more accurate": [kind for kind in others if signs[kind] > 0],
    }
    listed = "; ".join(f"{how}: {', '.join(group)}" for how, group in groups.items() if group)
    text = f"Over a distance of {distance}, compared with self-attention, {listed}."
    tested = [kind for kind in others if kind not in SHORT_PATHS and reach(results, kind) >= distance]
    better, unclear = ([kind for kind in tested if signs[kind] == sign] for sign in (1, 0))
    if better:
        return text + (
            f" That {', '.join(better)}, with long paths, is more accurate does not agree with sec. 4, perhaps because"
            " a short path helps only once a layer has learned to which position it leads."
        )
    if unclear or not tested:
        return (
            f"{text} So nothing can be said of layers with long paths ({', '.join(unclear) or 'none reaches so far'})."
        )
    text += f" That {', '.join(tested)}, with long paths, is less accurate agrees with sec. 4."
    if any(signs[kind] > 0 for kind in SHORT_PATHS):
        text += (
            " Path length is not everything: layers whose paths are as short or take log_k n steps can be more"
            " accurate, perhaps because a head must first learn to which position to attend."
        )
    return text


def markdown(results: Sequence[dict]) -> str:
    settings = results[0]["settings"]
    distances, kinds = settings["distances"], list(settings["kinds"])
    short = {key: value for key, value in settings.items() if key != "kinds"}
    lines = ["# Copying over a distance", "", verdict(results), ""]
    lines += [provenance("long_range", [result | {"settings": short} for result in results]), ""]
    lines += ["Share of the symbols that are copied right, against the distance:", ""]
    head = ["layers", "width", "parameters", *map(str, distances)]
    rows = []
    for kind in kinds:
        one = next(result for result in results if result["kind"] == kind)
        shape = ", ".join(f"{key} {value}" for key, value in settings["kinds"][kind].items() if key != "kind")
        accuracies = [
            with_error(at_best_rate(results, "accuracy", kind=kind, distance=distance), 2) for distance in distances
        ]
        rows.append([f"{kind} ({shape})", str(one["width"]), f"{one['parameters']:,}", *accuracies])
    lines += [*markdown_table(head, rows), ""]
    lines += ["Share of the gradient that arrives at the copied symbol before any update; 0: there is no path:", ""]
    rows = [[kind, *(gradient_share(results, kind, distance) for distance in distances)] for kind in kinds]
    return "\n".join([*lines, *markdown_table(["layers", *map(str, distances)], rows)]) + "\n"


def gradient_share(results: Sequence[dict], kind: str, distance: int) -> str:
    share = values_of(results, "share", kind=kind, distance=distance).mean()
    return f"{share:.1e}" if share else "0"


def draw(results: Sequence[dict]) -> "Figure":
    """Accuracy and the share of the gradient against the distance; where there is no path, the second line ends."""
    settings, figure = results[0]["settings"], new_figure(12, 4.8)
    left, right = figure.subplots(1, 2)
    distances = settings["distances"]
    for kind, colour in zip(settings["kinds"], COLOURS, strict=False):
        columns = [at_best_rate(results, "accuracy", kind=kind, distance=distance) for distance in distances]
        errors = np.nan_to_num([standard_error(column) for column in columns])
        style = {"color": colour, "markersize": 4, "label": kind}
        left.errorbar(distances, [column.mean() for column in columns], errors, fmt="o-", **style)
        columns = [values_of(results, "share", kind=kind, distance=distance) for distance in distances]
        shares = np.array([column.mean() for column in columns])
        right.plot(distances, np.where(shares > 0, shares, np.nan), "o-", **style)
    left.axhline(1 / settings["symbols"], color="#999999", linestyle=":", label="chance")
    left.set(ylabel="share of symbols copied right", ylim=(-0.03, 1.03))
    right.set(ylabel="share of the gradient before any update", yscale="log")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(distances, [str(distance) for distance in distances])
        axes.set_xlabel("distance")
        axes.grid(True, color="#dddddd", linewidth=0.6)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.get_layout_engine().set(rect=(0, 0.1, 1, 0.9))
    figure.suptitle("Sec. 4: copying symbols over a distance")
    return figure
