"""Sec. 5.4 measured: does label smoothing hurt perplexity and help BLEU, as the paper says?

    python examples/paper/table3.py --run base D3 D4        trains what is compared here, with several seeds
    python examples/paper/label_smoothing.py                compares them; into results/label_smoothing.md

Row D3 of Table 3 is the base model without label smoothing; D4 has 0.2 where base has 0.1. Rows with the same seed
begin with the same weights and see the same batches, so the differences are taken seed by seed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from program import read_results, reports_errors, showing, write_report
from seeds import compare, with_error
from table3 import PAPER, RESULTS

from benchmarks.common.tables import markdown_table
from minitransformer.cli.main import Parser
from minitransformer.errors import ConfigError

WITHOUT, SMOOTHED = "D3", {"base": 0.1, "D4": 0.2}
WHY_NOT = "Where it parts from the paper: models this small, after so few updates, are seldom too sure of a token."


def differences(results: Sequence[dict], row: str, key: str) -> np.ndarray:
    """``key`` of the row minus that of D3, for each seed that both have."""
    values = {name: {each["seed"]: each[key] for each in results if each["name"] == name} for name in (row, WITHOUT)}
    seeds = sorted(values[row].keys() & values[WITHOUT].keys())
    return np.array([values[row][seed] - values[WITHOUT][seed] for seed in seeds])


def verdict(name: str, values: np.ndarray) -> str:
    """How label smoothing changes what is called ``name``; in the paper it raises perplexity and BLEU alike."""
    sign = compare(values, np.zeros(len(values)))
    if sign == 0:
        return f"{name} is not distinguishable (in the paper it is higher)"
    return f"{name} is {'higher, which agrees' if sign > 0 else 'lower, which does not agree'} with the paper"


def report(results: Sequence[dict]) -> str:
    """The sentence and the table.

    Raises:
        ConfigError: no seed of base or D4 has one of D3 beside it.
    """
    rows = [row for row in SMOOTHED if len(differences(results, row, "nll"))]
    if not rows:
        raise ConfigError(
            "results must hold base and D3 with the same seed, got none; train them with `table3.py --run base D3`"
        )
    said, body = [], []
    for row in rows:
        nll, bleu = (differences(results, row, key) for key in ("nll", "bleu"))
        said.append(f"With {SMOOTHED[row]}, {verdict('perplexity', nll)}, and {verdict('BLEU', bleu)}.")
        paper_nll, paper_bleu = np.log(PAPER[row][0] / PAPER[WITHOUT][0]), PAPER[row][1] - PAPER[WITHOUT][1]
        measured = [str(len(nll)), with_error(nll, 3), f"{paper_nll:.3f}", with_error(bleu, 2), f"{paper_bleu:.1f}"]
        body.append([f"{SMOOTHED[row]} ({row}) minus 0 ({WITHOUT})", *measured])
    head = ["label smoothing", "seeds", "log-perplexity, nats", "paper's", "BLEU", "paper's"]
    shown = [each for each in results if each["name"] in (WITHOUT, *SMOOTHED)]
    text = " ".join(said) + (f" {WHY_NOT}" if "does not agree" in " ".join(said) else "")
    commits = ", ".join(sorted({each["machine"]["commit"] for each in shown}))
    source = (
        "`python examples/paper/label_smoothing.py`, of `table3.py --run base D3 D4` (settings: table3.md);"
        " differences seed by seed, tested by Student's t-test at the level of 5 %."
        f" {shown[0]['machine']['processor']}, commits {commits}."
    )
    lines = ["# Label smoothing", "", text, "", source, "", *markdown_table(head, body)]
    return "\n".join(lines) + "\n"


@reports_errors
def main() -> int:
    parser = Parser(prog="label_smoothing", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="of table3.py (default results/table3.jsonl)")
    results = parser.parse_args().results
    measured = read_results(results)
    with showing(results):
        text = report(measured)
    write_report(results.with_name("label_smoothing"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
