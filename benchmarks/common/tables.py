"""The command of a benchmark, and its results as files: a page in Markdown, and everything as JSON."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from examples.report import facts_list, machine_facts, of_this_maker, page
from minitransformer.allocator import keep_freed_memory
from minitransformer.files import write_text

RESULTS = Path(__file__).parents[1] / "results"


def run_benchmark(
    name: str,
    description: str,
    measure: Callable[[bool], tuple[dict, list[str]]],
    argv: Sequence[str] | None,
    facts: dict | None = None,
) -> int:
    """``python -m benchmarks.NAME [--quick]``, which writes nothing if it is quick; its exit code.

    measure: whether it is quick -> results, and blocks of the page   facts: beside `machine_facts`
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke test: small sizes, and no results are written")
    quick = parser.parse_args(argv).quick
    keep_freed_memory()
    facts = machine_facts() | (facts or {})
    results, blocks = measure(quick)
    text = page(*blocks, facts_list(facts))
    print(text)
    if not quick:
        save_results(of_this_maker(name), {"machine": facts} | results, text)
    return 0


def save_results(name: str, table: dict, text: str) -> None:
    """``table`` to results/NAME.json and ``text`` to results/NAME.md; earlier files stay as they are on a full disk."""
    RESULTS.mkdir(exist_ok=True)
    write_text(RESULTS / f"{name}.json", json.dumps(table, indent=1) + "\n")
    write_text(RESULTS / f"{name}.md", text)
