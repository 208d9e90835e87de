"""Sec. 5.4 measured: does label smoothing hurt perplexity and help BLEU, as the paper says?

    python -m examples.paper.table3 --run base D3 D4        trains what is compared here, with several seeds
    python -m examples.paper.label_smoothing                compares them; into results/label_smoothing.md

Row D3 of Table 3 is the base model without label smoothing; D4 has 0.2 where base has 0.1. Rows with the same seed
begin with the same weights and see the same batches, so the differences are taken seed by seed.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples import report_errors
from examples.paper.program import read_results, showing, write_report
from examples.paper.seeds import LEVEL, STUDENT, differences, holm, paired, tested_by, with_error
from examples.paper.table3 import PAPER, RESULTS
from examples.paper.table3_report import beside_base, beside_the_paper
from examples.report import all_machines, markdown_table, page
from minitransformer.cli.main import Parser
from minitransformer.errors import ConfigError

WITHOUT, SMOOTHED = "D3", {"base": 0.1, "D4": 0.2}
IN_TABLE_3 = "base", "nll"


def compared(results: Sequence[dict]) -> list[list[str]]:
    """The rows of the table. Base's perplexity compared with D3's has the p-value of table3.md, one of many there; the
    others are corrected among themselves."""
    values = {(row, key): differences(results, key, row, WITHOUT) for row in SMOOTHED for key in ("nll", "bleu")}
    values = {each: found for each, found in values.items() if len(found)}
    others = [each for each in values if each != IN_TABLE_3]
    p_values = dict(zip(others, holm([paired(values[each])[1] for each in others]), strict=True))
    if IN_TABLE_3 in values:
        p_values[IN_TABLE_3] = beside_base(results, PAPER)[WITHOUT].p_holm
    return [cells(*each, found, p_values[each]) for each, found in values.items()]


def cells(row: str, key: str, found: np.ndarray, p: float) -> list[str]:
    """found: ``key`` of the row minus ``key`` of D3, one value per seed"""
    (t, _), (ppl, bleu, _), (without, bleu_without, _) = paired(found), PAPER[row], PAPER[WITHOUT]
    what, digits, published = {
        "nll": ("log-perplexity, nats", 3, math.log(ppl / without)),
        "bleu": ("BLEU", 2, bleu - bleu_without),
    }[key]
    first = [f"{SMOOTHED[row]} ({row}) minus 0 ({WITHOUT})", what, f"{published:.{digits}f}"]
    first += [with_error(found, digits), str(len(found))]
    if len(found) == 1:
        return [*first, "", "", "not tested: one seed"]
    verdict = beside_the_paper(int(np.sign(t)) if p < LEVEL else 0, published)
    return [*first, f"{t:.3g}", f"{p:.3g}", verdict]


def report(results: Sequence[dict]) -> str:
    """The table and its source.

    Raises:
        ConfigError: base and D4 share no seed with D3.
    """
    body = compared(results)
    if not body:
        raise ConfigError(
            "results must hold base and D3 with the same seed, got none; train them with `table3.py --run base D3`"
        )
    head = ["label smoothing", "measure", "paper", "here", "seeds", "t", "p, corrected", "verdict"]
    shown = [each for each in results if each["name"] in (WITHOUT, *SMOOTHED)]
    processors, commits = (all_machines(shown, fact) for fact in ("processor", "commit"))
    source = (
        "`python -m examples.paper.label_smoothing`, from the results of `table3.py --run base D3 D4` (settings:"
        f" table3.md); ± is the standard error over seeds, and {tested_by(STUDENT)}. The first p-value is the one in"
        f" table3.md; the others are corrected among themselves. {processors}, commits {commits}."
    )
    return page("# Label smoothing", markdown_table(head, body), source)


@report_errors
def main() -> int:
    parser = Parser(prog="python -m examples.paper.label_smoothing", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="of table3.py (default results/table3.jsonl)")
    results = parser.parse_args().results
    measured = read_results(results)
    with showing(results):
        text = report(measured)
    write_report(results.with_name("label_smoothing"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
