"""Grade what students hand in: ``python -m course.grade HANDED_IN``, in the folder ``lessons``.

HANDED_IN has a folder for each student, and in it what ``check`` kept, the files of ``lessons/mine``. Each function is
tested on the usual inputs and on those of a seed that no student has seen, the same for all, in a process of its own
(``course.verify`` says what that stops, and what not).
"""

import argparse
import contextlib
import csv
import inspect
import io
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from course.exercise import exercises_of, lessons_with_exercises
from course.mine import Unusable, kept
from course.verify import STOPPED, confine, run_apart
from minitransformer.cli.common import report_errors, writable_file
from minitransformer.errors import ConfigError, quote
from minitransformer.files import write_text

NOT_HANDED_IN = "not handed in"


class Grade(NamedTuple):
    """What one exercise earned: 1 or 0, and why not 1."""

    name: str
    points: int
    text: str


def grade(names: Sequence[str], seed: int) -> None:
    """Inside the limits: a line of JSON for each exercise."""
    from course.checking import examine

    confine()
    for name in names:
        with contextlib.redirect_stdout(io.StringIO()):  # what the files themselves print
            try:
                function = kept(name)
                own = inspect.unwrap(function) if function else None  # errors name its lines, not a wrapper's
                result = examine(name, own, seed) if own else None
                points = int(result is not None and result.verdict == "right")
                fault = f"with other inputs: {result.text or 'not filled in'}" if result else NOT_HANDED_IN
                text = "" if points else fault
            except Unusable as error:
                points, text = 0, str(error)
        print(json.dumps([name, points, " ".join(text.split())]), flush=True)


def grades_of(student: Path, names: Sequence[str], seed: int) -> list[Grade]:
    """What a student's folder earns; what was not reached in time earns nothing."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        code = run_apart(f"from course.grade import grade; grade({list(names)!r}, {seed})", student.resolve(), output)
        output.seek(0)
        found = {grade.name: grade for grade in map(read_grade, output) if grade}
    late = STOPPED if code else "not graded"
    return [found.get(name, Grade(name, 0, late)) for name in names]


def read_grade(line: str) -> Grade | None:
    """A line of `grade`; None for what a file has printed past its redirection."""
    try:
        name, points, text = json.loads(line)
    except (ValueError, TypeError):
        return None
    return Grade(name, points, text) if isinstance(name, str) and points in (0, 1) else None


def report(student: str, grades: Sequence[Grade]) -> str:
    """A line for the student, and one for each function that is handed in and not right."""
    faults = [f"    {each.name}: {each.text}" for each in grades if not each.points and each.text != NOT_HANDED_IN]
    return "\n".join([f"{student}: {sum(each.points for each in grades)} of {len(grades)}", *faults])


def table(of_students: dict[str, list[Grade]]) -> str:
    """CSV: a row for each student, a column for each exercise, and the sum."""
    text = io.StringIO()
    names = [each.name for each in next(iter(of_students.values()))]
    rows = [[student, *(each.points for each in grades)] for student, grades in of_students.items()]
    csv.writer(text, lineterminator="\n").writerows(
        [["student", *names, "sum"], *([*row, sum(row[1:])] for row in rows)]
    )
    return text.getvalue()


def gradescope(grades: Sequence[Grade]) -> str:
    """``results.json`` of Gradescope: a test of one point for each exercise."""
    tests = [{"name": each.name, "score": each.points, "max_score": 1, "output": each.text} for each in grades]
    return json.dumps({"tests": tests}, indent=1, ensure_ascii=False) + "\n"


def names_of(lessons: Sequence[str]) -> list[str]:
    """The exercises of these lessons, named by their numbers or whole.

    Raises:
        ConfigError: there is no such lesson.
    """
    known = lessons_with_exercises()
    names = []
    for lesson in lessons or known:
        found = [each for each in known if each == lesson or each.startswith(f"{lesson}_") and lesson.isdigit()]
        if not found:
            raise ConfigError(f"--lessons must be of {', '.join(known)}, got {quote(lesson, 40)}")
        names += exercises_of(found[0])
    return names


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    options = parse_arguments(argv)
    names, students = names_of(options.lessons), students_of(options.folder, single=options.gradescope is not None)
    for path in filter(None, (options.csv, options.gradescope)):
        writable_file(path)
    graded = {}
    for student in tqdm(students, desc="students", disable=len(students) < 2):
        graded[student.name] = grades_of(student, names, options.seed)
        tqdm.write(report(student.name, graded[student.name]))
    print(f"the other inputs are those of --seed {options.seed}")
    if options.csv:
        write_text(options.csv, table(graded))
    if options.gradescope:
        write_text(options.gradescope, gradescope(graded[students[0].name]))
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m course.grade", description="Grade what students hand in.")
    parser.add_argument("folder", type=Path, metavar="HANDED_IN", help="it has a folder for each student")
    lessons = "such as 04 05 my_transformer (default: all)"
    parser.add_argument("--lessons", nargs="+", default=(), metavar="LESSON", help=lessons)
    seed = "of the inputs that no student has seen (default: a new one, which is printed)"
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N", help=seed)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table of the points")
    single = "write Gradescope's results.json; HANDED_IN is one student's folder then"
    parser.add_argument("--gradescope", type=Path, metavar="FILE", help=single)
    return parser.parse_args(argv)


def students_of(folder: Path, single: bool) -> list[Path]:
    """The folders of students, or this one.

    Raises:
        ConfigError: there is none.
    """
    if not folder.is_dir():
        raise ConfigError(f"HANDED_IN must be a folder, got {quote(str(folder))}")
    if single:
        return [folder]
    if not (students := sorted(path for path in folder.iterdir() if path.is_dir())):
        raise ConfigError(f"HANDED_IN must have a folder for each student, got none in {quote(str(folder))}")
    return students


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
