"""The field's words: no name or sentence falls back into a private dialect."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
FOLDERS = ("minitransformer", "tests", "benchmarks", "examples", "lessons", "docs")
FILES = [path for folder in FOLDERS for ending in ("py", "ipynb", "md") for path in (TOP / folder).rglob(f"*.{ending}")]
EXEMPT = {Path(__file__), TOP / "minitransformer" / "retired_keys.py", TOP / "docs" / "changes.md"}
RETIRED = re.compile(
    r"\b(Crew|join_ranks|Hub|Seen|Verdict|Alone|ONE_RANK|ALONE|Naive|Explain|find_place|GradientSum|uses_of_leaves|"
    r"Arrivals|nodes_behind|forward_only|function_of|NEVER_SAID|best_tokens|Unread|Reporter|LedgerEntry|"
    r"ByteSpelling|MarkedSpelling|MergeArrays|SPELLINGS|add_up|in_parts|TWINS|past_mpiexec|PATIENCE|rounded_up|"
    r"composed_of|computed_dtype|stored_dtype|kept_copy|limited_threads|measured_rate|png_bytes|forward_backward|"
    r"loss_and_backward|InPlaceSums|column_blocks|continues_source|reads_source|has_plain_rules|checked_ids|"
    r"word piece|Python's lock|what is no number|no longer a number|made-up|config word|fast twin|readable pair|"
    r"to the same bits as|the cache that forgets|in halves|never said)\b|--ledger"
)

BRITISH = re.compile(
    r"(?:binar|linear|normal|token|memor|recogn|initial|optim|organ|regular|parallel|character)is(?:e|ing|ation)|colour|"
    r"favour|neighbour|behaviour|centred|\bgrey\b|licence|judgement|artefact|(?:label|cancel|signal|model)l(?:ed\b|ing)",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "path", sorted({*FILES, *TOP.glob("*.md")} - EXEMPT), ids=lambda path: str(path.relative_to(TOP))
)
def test_code_and_prose_use_no_retired_word_and_american_spelling(path):
    text = re.sub(r"[\s#]+", " ", path.read_text(encoding="utf-8"))
    assert RETIRED.findall(text) == []
    assert BRITISH.findall(text) == []  # the names of NumPy, PyTorch and fairseq are American
