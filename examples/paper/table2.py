"""Table 2's last column: what every training here cost in FLOPs, by formula and as the paper counts them.

    python -m examples.paper.table2                        from all results so far; into results/table2.*
    python -m examples.paper.table2 --add runs/multi30k    record the cost of a training run from the command line

The paper multiplies the time, the number of GPUs and the FLOP/s that each sustains [sec. 6.1, footnote 5]; here the
sustained rate is that of a large matrix product on the processor. The formula counts the multiplications and additions
of all matrix products, forward and backward.
"""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples import report_errors
from examples.paper.program import UNFIT, read_results, showing, write_report
from examples.paper.sweep import append, opened_alone
from examples.paper.trials import RESULTS
from examples.report import markdown_table, on_a_core, page
from minitransformer.cli.main import Parser
from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError, DataError
from minitransformer.files import read_bounded
from minitransformer.planning import Cost, batch_flops

OWN = RESULTS / "table2.jsonl"
TABLE_2 = {
    ("en-de", "ConvS2S"): 9.6e18,
    ("en-de", "MoE"): 2.0e19,
    ("en-de", "GNMT + RL"): 2.3e19,
    ("en-de", "Transformer (base)"): 3.3e18,
    ("en-de", "Transformer (big)"): 2.3e19,
    ("en-fr", "Deep-Att + PosUnk"): 1.0e20,
    ("en-fr", "MoE"): 1.2e20,
    ("en-fr", "GNMT + RL"): 1.4e20,
    ("en-fr", "ConvS2S"): 1.5e20,
    ("en-fr", "Transformer (base)"): 3.3e18,
    ("en-fr", "Transformer (big)"): 2.3e19,
}
"""Training cost of single models, FLOPs  [Table 2]."""
PAPER = {
    "Transformer (base)": (ModelConfig.base(), 100_000, 0.4),
    "Transformer (big)": (ModelConfig.big(), 300_000, 1.0),
}
"""Model, updates, and seconds per update on eight P100 GPUs  [sec. 5.2]."""
TOKENS, LENGTH = 25_000, 25
"""Tokens on each side of an update  [sec. 5.1], and about how many a sentence has, which hardly changes the formula."""


class Training(NamedTuple):
    """hours: that it took, NaN for the paper's   formula, paper: FLOPs by formula and as the paper counts them"""

    experiment: str
    name: str
    hours: float
    formula: float
    paper: float


def add(folders: Sequence[Path]) -> None:
    """Append the costs of these trainings, or nothing if `cost_of` refuses one of them."""
    with opened_alone(OWN) as file:
        names = [result["name"] for result in read_results(OWN)]
        found = [cost_of(folder, [*names, *(each.name for each in folders[:i])]) for i, folder in enumerate(folders)]
        for result in found:
            append(file, result)


def cost_of(folder: Path, known: Collection[str]) -> dict:
    """The cost of the training in ``folder``, a result.   known: names that have a result

    Raises:
        ConfigError: it has no cost.json, or the results have this run already.
        DataError: cost.json is damaged.
    """
    path = folder / "cost.json"
    if not path.exists():
        raise ConfigError(f"{path}: must exist, got no such file; train to the last update, which writes it")
    if folder.name in known:
        raise ConfigError(f"{OWN}: must not have {folder.name} already; delete its line to measure it again")
    try:
        figures = json.loads(read_bounded(path, 1 << 16))
        cost = Cost(*(figures[field] for field in ("formula", "seconds", "devices", "sustained")))
        is_whole = all(np.isfinite(each) and each > 0 for each in (cost.formula, cost.paper))
    except UNFIT:
        is_whole = False
    if not is_whole:
        raise DataError(f"{path}: must be what a training has written, got something else; train again")
    return {"name": folder.name, "seed": 1} | cost.to_dict()


def trainings() -> list[Training]:
    """The paper's models, and all that were trained here."""
    found = []
    for name, (model, updates, _) in PAPER.items():
        flops = updates * batch_flops(model, TOKENS // LENGTH, LENGTH, LENGTH)
        found.append(Training("the paper", name, np.nan, flops, TABLE_2["en-de", name]))
    for each in read_results(OWN):
        found.append(Training("recipes", each["name"], each["seconds"] / 3600, each["formula"], each["paper"]))
    for experiment in ("table3", "recurrent"):
        results = [each for each in read_results(RESULTS / f"{experiment}.jsonl") if "flops" in each]
        found += fastest(experiment, on_a_core(results))
    return found


def fastest(experiment: str, results: Sequence[dict]) -> Iterator[Training]:
    """The fastest seed of each training, at the highest rate that any training measured on its processor.

    Trainings that run side by side slow each other down, and the measurement of the rate as well.
    """
    rates: dict[str, float] = {}
    for each in results:
        processor, rate = each["machine"]["processor"], each["flops_paper"] / each["seconds"]
        rates[processor] = max(rate, rates.get(processor, 0.0))
    for name in dict.fromkeys(each["name"] for each in results):
        least = min((each for each in results if each["name"] == name), key=lambda each: each["seconds"])
        seconds, rate = least["seconds"], rates[least["machine"]["processor"]]
        yield Training(experiment, name, seconds / 3600, least["flops"], seconds * rate)


def markdown(found: Sequence[Training]) -> str:
    base = found[0]
    body = [
        [each.experiment, each.name, "" if np.isnan(each.hours) else f"{each.hours:.2f}"]
        + [f"{each.formula:.2e}", f"{each.paper:.2e}"]
        for each in found
    ]
    head = ["experiment", "training", "hours", "FLOPs by formula", "FLOPs as the paper counts them"]
    return page(
        "# Training cost",
        f"By the formula the paper's base model takes {base.formula:.1e} FLOPs, {base.formula / base.paper:.0%} of the"
        f" {base.paper:.1e} in Table 2. This is the share of 9.5 TFLOP/s that its P100s reached, if they trained all of"
        " the time. The two figures do not show this share for the trainings here, because some ran on a busy machine"
        " and some on a quiet one.",
        "`python -m examples.paper.table2`, from the `cost.json` of each training. With several seeds the fastest one"
        " counts, at the highest rate that any training of the experiment measured on its processor, since trainings"
        " that share a machine slow each other down. Settings, machine and commits are in the results: table3.jsonl,"
        " recurrent.jsonl and table2.jsonl, where `sustained_from` names the training whose rate was used for a recipe"
        " if its own rate is not known. Hours are those of one core, or for a recipe those of the cores that"
        " table2.jsonl names.",
        markdown_table(head, body),
    )


@report_errors
def main() -> int:
    parser = Parser(prog="python -m examples.paper.table2", description=__doc__)
    parser.add_argument("--add", type=Path, nargs="+", default=[], metavar="RUN", help="folders of finished trainings")
    if folders := parser.parse_args().add:
        add(folders)
    with showing(RESULTS):
        text = markdown(trainings())
    write_report(RESULTS / "table2.jsonl", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
