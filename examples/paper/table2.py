"""Table 2's last column: what every training here cost in FLOPs, by formula and as the paper counts.

    python examples/paper/table2.py                        of all results so far; into results/table2.*
    python examples/paper/table2.py --add runs/multi30k    keep what a training of the command line cost

The paper multiplies the time, the number of GPUs and the FLOP/s that each sustains [sec. 6.1, footnote 5]; here that is
the rate of a large product on the processor, measured when the training is done. The formula counts the multiplications
and additions of all matrix products, forward and backward. The ratio of the two is how much of that rate a training
reached.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sweep import fail, read_results
from trials import COLOURS, RESULTS, table

from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError, MiniTransformerError
from minitransformer.figures import png_bytes
from minitransformer.figures.canvas import new_figure
from minitransformer.files import write_text
from minitransformer.planning import batch_flops

OWN = RESULTS / "table2.jsonl"
PAPER = {
    "Transformer (base)": (ModelConfig.base(), 100_000, 3.3e18),
    "Transformer (big)": (ModelConfig.big(), 300_000, 2.3e19),
}
"""(model, updates, FLOPs as the paper counts)  [Table 2, Table 3]"""
TOKENS, LENGTH = 25_000, 25
"""Tokens on each side of an update  [sec. 5.1]; and about how many a sentence has, which changes the formula little."""


def add(folder: Path) -> None:
    """Append what the training in ``folder`` cost.

    Raises:
        ConfigError: it has no cost.json, or the results have this run already.
    """
    path = folder / "cost.json"
    if not path.exists():
        raise ConfigError(f"{path}: must exist, got no such file; train to the last update, which writes it")
    if any(result["name"] == folder.name for result in read_results(OWN)):
        raise ConfigError(f"{OWN}: must not have {folder.name} already; delete its line to measure it again")
    cost = json.loads(path.read_text(encoding="utf-8"))
    with OWN.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"name": folder.name, "seed": 1, **cost}) + "\n")


def rows() -> list[tuple[str, str, float, float]]:
    """(experiment, training, FLOPs by formula, as the paper counts) of the paper's models and of all that ran here."""
    found = []
    for name, (model, updates, flops) in PAPER.items():
        found.append(("the paper", name, updates * batch_flops(model, TOKENS // LENGTH, LENGTH, LENGTH), flops))
    for result in read_results(OWN):
        found.append(("recipes", result["name"], result["formula"], result["paper"]))
    for experiment in ("table3", "recurrent"):
        results = [each for each in read_results(RESULTS / f"{experiment}.jsonl") if "flops" in each]
        for name in dict.fromkeys(each["name"] for each in results):
            costs = [(each["flops"], each["flops_paper"]) for each in results if each["name"] == name]
            found.append((experiment, name, *np.mean(costs, axis=0).tolist()))
    return found


def markdown(found: Sequence[tuple[str, str, float, float]]) -> str:
    base = found[0]
    lines = [
        "# Training cost",
        "",
        f"By the formula the paper's base model takes {base[2]:.1e} FLOPs, {base[2] / base[3]:.0%} of the {base[3]:.1e}"
        " in Table 2: that is how much of 9.5 TFLOP/s its P100s reached, if they trained all of the time.",
        "",
        "`python examples/paper/table2.py`; means over the seeds. Trainings that shared their processor with others"
        " took longer, which the paper's way of counting includes.",
        "",
    ]
    body = [
        [experiment, name, f"{formula:.2e}", f"{paper:.2e}", f"{formula / paper:.2f}"]
        for experiment, name, formula, paper in found
    ]
    head = ["experiment", "training", "FLOPs by formula", "FLOPs as the paper counts", "ratio"]
    return "\n".join([*lines, *table(head, body)]) + "\n"


def draw(found: Sequence[tuple[str, str, float, float]]):
    """One point a training, log-log; on the line all the time went into products at the sustained rate."""
    figure = new_figure(6.5, 6)
    axes = figure.subplots()
    for experiment, colour in zip(dict.fromkeys(row[0] for row in found), COLOURS, strict=False):
        points = [row[2:] for row in found if row[0] == experiment]
        axes.loglog(*zip(*points, strict=True), "o", color=colour, markersize=4, label=experiment)
    ends = [min(row[2] for row in found) / 2, max(row[3] for row in found) * 2]
    axes.plot(ends, ends, color="#999999", linewidth=0.8, label="equal")
    axes.set(xlabel="FLOPs by formula", ylabel="FLOPs as the paper counts", title="Cost of every training")
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], metavar="RUN", help="folders of trainings that are done"
    )
    try:
        for folder in parser.parse_args().add:
            add(folder)
        found = rows()
        write_text(RESULTS / "table2.md", markdown(found))
        (RESULTS / "table2.png").write_bytes(png_bytes(draw(found)))
        print((RESULTS / "table2.md").read_text(encoding="utf-8"), end="")
    except MiniTransformerError as error:
        return fail("table2", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
