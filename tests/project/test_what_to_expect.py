"""docs/what-to-expect.md says what was measured."""

import re
from pathlib import Path

import pytest
from extras import need
from tiny_run import checkpoint_of, save_untrained

from examples import what_to_expect

PAGE = (Path(__file__).parents[2] / "docs/what-to-expect.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in PAGE.splitlines() if re.match(r"\| [\d,]+ \|", row)]
RESULT = '{"name": "a", "hours": 2, "bleu": 30, "parameters": "checkpoint"}\n'


def test_each_row_is_the_last_result_of_its_training():
    last = {result["name"].split(" pairs")[0]: result for result in what_to_expect.read()}
    assert sorted(row[0] for row in ROWS) == sorted(last) and len(last) == 3
    for pairs, _, _, weights, minutes, bleu, chrf, *_ in ROWS:
        found = last[pairs]
        assert float(bleu) == pytest.approx(found["bleu"], abs=0.05)
        assert chrf == (f"{found['chrf']:.1f}" if found["chrf"] else "")
        assert int(minutes) == round(60 * found["hours"])
        assert float(weights.split()[0]) == pytest.approx(found["weights"] / 1e6, abs=0.05)
        assert found["hours"] == pytest.approx(found["update"] * found["seconds_per_update"] / 3600, abs=1e-4)


def test_the_picture_has_a_curve_for_each_training():
    need("matplotlib")
    drawn, draw = what_to_expect.read(), what_to_expect.draw
    assert draw(drawn).startswith(b"\x89PNG") and draw(drawn) != draw(drawn[:-1])


def test_a_curve_is_drawn_of_whole_results_alone(tmp_path, monkeypatch, refused):
    need("matplotlib")
    results, picture = tmp_path / "results.jsonl", tmp_path / "picture.png"
    monkeypatch.setattr(what_to_expect, "RESULTS", results)
    monkeypatch.setattr(what_to_expect, "PICTURE", picture)
    for text in ("{", "[]", "{}", RESULT.replace("bleu", "chrf") + RESULT):
        results.write_text(text)
        refused(what_to_expect.main(["draw"]), "results.jsonl: every result must have what the report shows")
    assert not picture.exists()
    results.write_text(RESULT + RESULT.replace("checkpoint", "mean of the last 2"))
    assert what_to_expect.main(["draw"]) == 0 and picture.read_bytes().startswith(b"\x89PNG")


def test_a_checkpoint_that_has_a_line_gets_no_second_one(tmp_path, monkeypatch, capsys):
    results, text = tmp_path / "results.jsonl", tmp_path / "text"
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    save_untrained(checkpoint_of(tmp_path / "run", 7))
    text.write_text("a\n")
    results.write_text('{"name": "a", "parameters": "checkpoint", "update": 7}\n')
    monkeypatch.setattr(what_to_expect, "RESULTS", results)
    monkeypatch.setattr(what_to_expect, "build_with_tokenizer", lambda *_: pytest.fail("it is scored again"))
    options = ["--name", "a", "--src", str(text), "--ref", str(text), "--updates", "7", "--seconds", "1"]
    assert what_to_expect.main(["score", str(tmp_path / "run"), *options]) == 0
    assert "update 7: is there already" in capsys.readouterr().out and len(results.read_text().splitlines()) == 1


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_hours_are_of_seconds_above_0(tmp_path, seconds, refused):
    texts = ["--src", "none", "--ref", "none"]
    options = [str(tmp_path), "--name", "a", *texts, "--updates", "3", f"--seconds={seconds}"]
    refused(what_to_expect.main(["score", *options]), "--seconds must be above 0")
