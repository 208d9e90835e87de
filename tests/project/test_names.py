"""The field's words: no identifier, config key, option or sentence falls back into a private dialect."""

import ast
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from minitransformer.cli.main import build_parser
from minitransformer.config import Config
from minitransformer.retired_keys import RETIRED_KEYS

TOP = Path(__file__).parents[2]
CODE = sorted(
    path
    for folder in ("minitransformer", "tests", "benchmarks", "examples", "lessons", "docs")
    for path in (TOP / folder).rglob("*.py")
    if path != Path(__file__) and path.name != "retired_keys.py"
)
NOTEBOOKS = sorted((TOP / "lessons").glob("*.ipynb"))
DOCUMENTS = sorted(
    path
    for path in TOP.rglob("*.md")
    if not {".venv", ".git", "runs", "node_modules"} & set(path.relative_to(TOP).parts)
)

RETIRED_IDENTIFIERS = set(
    "Crew join_ranks Hub Member Watch Seen Verdict Alone ONE_RANK ALONE Naive Explain Place find_place speak "
    "GradientSum uses_of_leaves Arrivals arrive nodes_behind home measures forward_only function_of using choose "
    "NEVER_SAID best_tokens Unread Journal journal Reporter ledger LedgerEntry Residual "
    "ByteSpelling MarkedSpelling MergeArrays SPELLINGS add_up in_parts TWINS twin beginnings past_mpiexec "
    "PATIENCE chooser explained quoted rounded_up composed_of computed_dtype stored_dtype kept_copy limited_threads "
    "measured_rate png_bytes forward_backward loss_and_backward InPlaceSums Destination column_blocks Gradients "
    "continues_source reads_source has_plain_rules checked_ids".split()
)
ELSEWHERE = {  # where one of these words is another thing's own name
    "download.py": {"home"},
    "unpacking.py": {"home"},
    "test_data_command.py": {"home"},
    "test_data_sets.py": {"home"},
    "memory.py": {"Watch"},
    "torch_step.py": {"measures"},
    "step_memory.py": {"measures"},
    "training_step.py": {"measures"},
    "lesson_13.py": {"choose"},
}
RETIRED_PHRASES = (
    "word piece",
    "Python's lock",
    "what is no number",
    "no longer a number",
    "made-up",
    "config word",
    "fast twin",
    "readable pair",
    "to the same bits as",
    "the cache that forgets",
    "in halves",
    "stored in halves",
    "--ledger",
    "never said",
)


def sources(path: Path) -> list[str]:
    """The code of a module, or of each cell of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def identifiers(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        found |= {getattr(node, name, None) for name in ("id", "attr", "arg", "name", "asname")}
    return {name for name in found if isinstance(name, str)}


@pytest.mark.parametrize("path", [*CODE, *NOTEBOOKS], ids=lambda path: path.relative_to(TOP).as_posix())
def test_code_uses_no_retired_identifier(path):
    found = {name for source in sources(path) for name in identifiers(source)}
    assert found & RETIRED_IDENTIFIERS <= ELSEWHERE.get(path.name, set())


@pytest.mark.parametrize("path", [*CODE, *NOTEBOOKS, *DOCUMENTS], ids=lambda path: path.relative_to(TOP).as_posix())
def test_prose_has_no_retired_phrase(path):
    text = re.sub(r"[\s#]+", " ", path.read_text(encoding="utf-8"))
    assert [phrase for phrase in RETIRED_PHRASES if phrase in text] == []


def test_config_keys_and_options_have_no_retired_name():
    keys = {f"{spec.name}.{entry.name}" for spec in fields(Config) for entry in fields(spec.default_factory)}
    assert not keys & set(RETIRED_KEYS) and "training.timeout" in keys
    options = {
        option for parser in every_parser(build_parser()) for each in parser._actions for option in each.option_strings
    }
    assert not options & {"--ledger", "--start", "--engine"} and "--ablation" in options


def every_parser(parser):
    yield parser
    for action in parser._actions:
        for each in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from every_parser(each)
