"""docs/troubleshooting.md says what was measured."""

import json
import re
import sys
from pathlib import Path

import pytest

from examples import troubleshooting

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = {result["fault"]: result for result in json.loads((DOCS / "troubleshooting.json").read_text())["results"]}
ROWS = {
    row.split(" | ")[1]: row
    for row in (DOCS / "troubleshooting.md").read_text(encoding="utf-8").split("\n")
    if "nats" in row
}
COLORS = {
    "orange": "rate 100 times too low",
    "green": "warm-up longer than the run",
    "red": "rate 20 times too high",
    "violet": "six layers, post-norm, short warm-up",
    "pink": "targets one line off",
    "gray": "only 200 pairs",
}
LOSSES = {  # what a row states of its colors, in order: of the text that is not trained on, or of the training text
    ("orange", "green"): [("orange", "valid", 1000), ("green", "valid", 1000)],
    ("red",): [("red", "curve", 80), ("red", "valid", 1000)],
    ("violet",): [("violet", "valid", 1000)],
    ("pink",): [("pink", "valid", 1000)],
    ("gray",): [("gray", "valid", 1000), ("gray", "curve", 1000)],
}


def test_the_losses_of_the_page_are_those_of_the_trainings():
    rows = {tuple(re.split(r"[:;]", cell)[0].split(", ")): re.findall(r"\d+\.\d+", cell) for cell in ROWS}
    assert rows.keys() == LOSSES.keys()
    for colors, stated in rows.items():
        measured = [dict(RESULTS[COLORS[color]][kind])[update] for color, kind, update in LOSSES[colors]]
        assert stated == [f"{loss:.{len(each.split('.')[1])}f}" for loss, each in zip(measured, stated, strict=True)]


def test_outputs_of_the_page_are_those_of_the_trainings():
    rows = [(cell.split(":")[0].split(", "), re.search(r"(\d+) of 100 right", cell)) for cell in ROWS]
    stated = {color: int(share[1]) for colors, share in rows if share for color in colors}
    assert stated == {color: RESULTS[COLORS[color]]["right"] for color in ("orange", "green", "gray")}
    for color in ("red", "violet", "pink"):  # "all outputs empty", "the same line", "one output for all 100 lines"
        assert (RESULTS[COLORS[color]]["distinct"], RESULTS[COLORS[color]]["right"]) == (1, 0)
    assert RESULTS["as it should be"]["right"] > 95


def test_its_help_trains_nothing(monkeypatch, capsys):
    monkeypatch.setattr(troubleshooting, "measure", lambda *_: pytest.fail("a training began"))
    monkeypatch.setattr(sys, "argv", ["troubleshooting", "--help"])
    with pytest.raises(SystemExit):
        troubleshooting.main()
    assert "eight times" in capsys.readouterr().out
