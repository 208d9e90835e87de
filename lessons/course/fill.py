"""Run every notebook with all its solutions filled in: ``python -m course.fill``, in the folder ``lessons``.

Fails, with exit code 1, if a cell raises, a check's verdict is not "right", or a notebook takes longer than a minute
(``--seconds N``: on a busy machine, N). Names of notebooks may follow: ``python -m course.fill 04_attention bug_zoo``.
"""

import argparse
import ast
import re
import sys
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from course.exercise import LESSONS

SECONDS = 60
"""Time limit of a notebook, its solutions included, on two cores with nothing else to do."""
VERDICT = re.compile(r"^(\w+\.\w+): (right|wrong|not\syet)\.", re.MULTILINE)


def checked_exercises(source: str) -> list[tuple[str, str]]:
    """(exercise, function) of every ``check("...", function)`` in a cell's source."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    checks = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "check"]
    return [(call.args[0].value, call.args[1].id) for call in checks]


def filled(source: str) -> str:
    """The cell with every ``check`` line preceded by one that puts the solution in the function's place."""
    for exercise, function in checked_exercises(source):
        line = re.compile(rf'^check\("{re.escape(exercise)}"', re.MULTILINE)
        solution = f'from course.exercise import solution_of\n\n{function} = solution_of("{exercise}")\n'
        source = line.sub(lambda found, solution=solution: solution + found.group(), source)
    return source


def run(name: str, limit: int) -> list[str]:
    """What is wrong with the filled notebook: a line for each check that is not right, or the error.

    limit: of a cell, seconds
    """
    notebook = nbformat.read(LESSONS / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    expected = [exercise for cell in cells for exercise, _ in checked_exercises(cell.source)]
    for cell in cells:
        cell.source = filled(cell.source)
    try:
        client = NotebookClient(notebook, timeout=limit, resources={"metadata": {"path": str(LESSONS)}})
        client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]  # no warning that a local kernel speaks plain text
        client.execute()
    except (CellExecutionError, CellTimeoutError) as error:
        return [f"{name}: {error}"]
    printed = "".join(out.get("text", "") for cell in cells for out in cell.outputs if out.output_type == "stream")
    verdicts = dict(VERDICT.findall(printed))
    return [f"{each}: {verdicts.get(each, 'no verdict')}" for each in expected if verdicts.get(each) != "right"]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.fill", description=__doc__.split(":")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks, such as 04_attention (default: all)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"limit of a notebook (default: {SECONDS})")
    options = parser.parse_args(argv)
    known = sorted(path.stem for path in LESSONS.glob("*.ipynb"))
    names = [name.removesuffix(".ipynb") for name in options.names]
    faults = [f"there is no notebook {name}; there are {', '.join(known)}" for name in names if name not in known]
    if faults:
        print("\n".join(faults))
        return 1
    for name in names or known:
        start = time.perf_counter()
        found = run(name, options.seconds)
        seconds = time.perf_counter() - start
        if seconds > options.seconds:
            found.append(f"{name}: must run in {options.seconds} s, took {seconds:.0f} s")
        print(f"{name}: {'all exercises right' if not found else f'faults: {len(found)}'}, {seconds:.0f} s", flush=True)
        faults += found
    if faults:
        print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
