"""``course.grade``: points for what is right on inputs that nobody has seen, and one line for what is not."""

import csv
import json
import re

import numpy as np
import pytest
from kept_files import kept_file

from course import grade
from course.exercise import LESSONS, all_exercises, exercises_of

NAMES = list(exercises_of("03_softmax"))
MEMORIZED = """
from course.exercise import find_exercise

def answers():
    return [(repr(case), right(*case)) for case in find_exercise("03_softmax.softmax").cases()]

def f(scores):
    return dict(answers()).get(repr((scores,)), scores)
"""
LATE = "import os\nos._exit(3)\n"
NOISE = "import os\nos.write(1, b'noise\\n[1, 2]\\n')\nf = right\n"


def read(name):
    return (LESSONS / name).read_text(encoding="utf-8")


@pytest.fixture
def hand_in(tmp_path):
    """Writes a student's file: the solution, unless it is given other lines."""

    def write(student, name, lines="f = right\n"):
        folder = tmp_path / "handed in" / student
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(kept_file(name, lines))
        return folder

    return write


def graded(folder, *options):
    assert grade.main([str(folder), "--lessons", "03", "--seed", "5", *map(str, options)]) == 0


def test_right_functions_earn_a_point_each_and_others_none(hand_in, tmp_path, capsys):
    for name in NAMES:
        hand_in("anna", name)
    hand_in("berta", NAMES[0])
    folder = hand_in("berta", NAMES[1], "def f(*given):\n    return 2 * right(*given)\n").parent
    graded(folder, "--csv", tmp_path / "points.csv")
    rows = list(csv.reader((tmp_path / "points.csv").open(encoding="utf-8")))
    assert rows[0] == ["student", *NAMES, "sum"]
    assert rows[1:] == [["anna", *["1"] * len(NAMES), str(len(NAMES))], ["berta", "1", *["0"] * (len(NAMES) - 1), "1"]]
    out = capsys.readouterr().out
    assert (
        f"anna: {len(NAMES)} of {len(NAMES)}\nberta: 1 of {len(NAMES)}\n    {NAMES[1]}: its function is wrong: " in out
    )


def test_answers_to_the_usual_inputs_alone_are_not_enough(hand_in, capsys):
    hand_in("berta", "03_softmax.softmax", MEMORIZED.replace(", scores)\n", ", ...)\n"))  # not yet, where it is new
    graded(hand_in("anna", "03_softmax.softmax", MEMORIZED).parent)
    out = capsys.readouterr().out
    assert "anna: 0 of " in out and "03_softmax.softmax: with other inputs: Expected [[" in out
    assert "berta: 0 of " in out and "03_softmax.softmax: with other inputs: not filled in\n" in out


def test_an_error_at_other_inputs_names_the_students_own_line(hand_in, capsys):
    raises = MEMORIZED.replace(".get(repr((scores,)), scores)", "[repr((scores,))]")
    graded(hand_in("anna", "03_softmax.softmax", raises).parent)
    assert "in its line 2, `return dict(answers())[repr((scores,))]`" in capsys.readouterr().out


def test_a_file_that_ends_the_process_costs_what_follows_and_noise_costs_nothing(hand_in, capsys):
    hand_in("anna", NAMES[0], NOISE)
    hand_in("anna", NAMES[1])
    hand_in("anna", NAMES[2], LATE)
    graded(hand_in("anna", NAMES[3]).parent)
    first, *faults, _ = capsys.readouterr().out.splitlines()
    assert first == f"anna: 2 of {len(NAMES)}" and len(faults) == len(NAMES) - 2
    assert all("Stopped: " in fault for fault in faults)


def test_gradescope_reads_a_test_for_each_exercise(hand_in, tmp_path):
    graded(hand_in("anna", NAMES[0]), "--gradescope", tmp_path / "results.json")
    tests = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["tests"]
    assert [(test["name"], test["score"], test["max_score"]) for test in tests] == [
        (name, int(name == NAMES[0]), 1) for name in NAMES
    ]
    assert {test["output"] for test in tests[1:]} == {"not handed in"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "HANDED_IN must be a folder, got 'nowhere'"),
        (["."], "a folder for each student, got none"),
        ([".", "--lessons", "4"], "--lessons must be of 01_arrays, "),
        (["..", "--csv", "nowhere/points.csv"], "output must be in an existing folder"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert grade.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_the_solutions_earn_everything_on_any_inputs(tmp_path, capsys):
    """What tests of exercises need, sacreBLEU among it, is there in the confined process."""
    folder = tmp_path / "solutions"
    folder.mkdir()
    for name in all_exercises():
        (folder / f"{name}.py").write_text(kept_file(name))
    assert grade.main([str(tmp_path)]) == 0
    assert f"solutions: {len(all_exercises())} of {len(all_exercises())}\n" in capsys.readouterr().out


def test_the_plan_for_a_term_has_every_notebook_once_and_the_hours_of_the_table():
    minutes = re.findall(r"^\|.*?\[(\w+)\]\(\1\.ipynb\).*\| (\d+) \+ (\d+) \|", read("README.md"), re.MULTILINE)
    hours = {name: (int(reading) / 60, int(exercises) / 60) for name, reading, exercises in minutes}
    weeks = re.findall(r"^\| \d+ \| (\w+(?:, \w+)*) \| ([\d.]+) \+ ([\d.]+) \|", read("TEACHING.md"), re.MULTILINE)
    planned = [name for names, *_ in weeks for name in names.split(", ")]
    assert sorted(planned) == sorted(hours) == sorted(path.stem for path in LESSONS.glob("*.ipynb"))
    for names, *found in weeks:
        wanted = np.sum([hours[name] for name in names.split(", ")], axis=0)
        np.testing.assert_allclose([float(each) for each in found], wanted, atol=0.06)
