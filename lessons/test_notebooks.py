"""Each notebook as a reader opens it, and ``fill``, which runs them with all solutions.

These tests need Jupyter and take minutes, so they are asked for by name: ``python -m pytest lessons``.
"""

import pytest

from course import fill

NOTEBOOKS = sorted(path.stem for path in fill.LESSONS.glob("*.ipynb"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_prints_the_verdicts_that_it_means(name):
    faults, _ = fill.run(name, fill.SECONDS, solved=False)
    assert "\n".join(faults) == ""


def test_fill_names_the_notebooks_if_one_is_unknown(capsys):
    assert fill.main(["04_atention"]) == 1
    assert "there is no notebook 04_atention; there are 01_arrays, " in capsys.readouterr().out


def test_fill_refuses_a_notebook_that_takes_too_long(monkeypatch, capsys):
    monkeypatch.setattr(fill, "CLOCK_FACTOR", 100)  # a cell may wait long for the processor of a busy machine
    assert fill.main(["07_feed_forward", "--seconds", "1"]) == 1
    assert "07_feed_forward: must run in 1 s of processor time, took" in capsys.readouterr().out
