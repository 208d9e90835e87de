"""Run every notebook with all its solutions filled in: ``python -m course.fill``, in the folder ``lessons``.

Fails, with exit code 1, if a cell raises, an exercise is not right, a ``check_gradient`` says something that its cell
does not mean, or a notebook takes more than a minute of processor time (``--seconds N``: N). Names may follow:
``python -m course.fill 04_attention bug_zoo``.
"""

import argparse
import os
import re
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from course.exercise import LESSONS
from course.mine import FOLDER
from course.verdicts import calls, unmeant_verdicts

SECONDS = 60
"""Processor time that a notebook may take, its solutions included; ``LONGER`` names those that may take more."""
LONGER = {"my_transformer": 180, "my_llm": 120}
CLOCK_FACTOR = 10
"""A cell may take so many times the limit by the clock: other work on the machine may slow it down."""


def filled(source: str) -> str:
    """The cell with every ``check`` line preceded by one that puts the solution in the function's place."""
    for call in calls(source, "check"):
        exercise, function = call.args[0].value, call.args[1].id
        line = re.compile(rf'^check\("{re.escape(exercise)}"', re.MULTILINE)
        solution = f'from course.exercise import solution_of\n\n{function} = solution_of("{exercise}")\n'
        source = line.sub(lambda found, solution=solution: solution + found.group(), source)
    return source


def run(name: str, limit: int, solved: bool = True) -> tuple[list[str], float]:
    """What is wrong with a notebook, run with or without its solutions, and its processor time.

    Wrong are verdicts that it does not mean, an error, and more processor time than the limit.
    """
    limit = max(limit, LONGER.get(name, 0))
    os.environ[FOLDER] = "off"  # neither the reader's own functions nor the solutions are kept
    notebook = nbformat.read(LESSONS / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        if solved and cell.cell_type == "code":
            cell.source = filled(cell.source)
    notebook.cells.append(nbformat.v4.new_code_cell("import time; print(time.process_time())"))
    try:
        client = NotebookClient(notebook, timeout=CLOCK_FACTOR * limit, resources={"metadata": {"path": str(LESSONS)}})
        client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]  # no warning that a local kernel speaks plain text
        client.execute()
    except (CellExecutionError, CellTimeoutError) as error:
        return [f"{name}: {error}"], float("nan")
    seconds = float(notebook.cells.pop().outputs[0].text)
    faults = unmeant_verdicts(notebook.cells, solved)
    if seconds > limit:
        faults.append(f"must run in {limit} s of processor time, took {seconds:.0f} s")
    return [f"{name}: {fault}" for fault in faults], seconds


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
        found, seconds = run(name, options.seconds)
        print(f"{name}: {f'faults: {len(found)}' if found else 'every verdict as meant'}, {seconds:.0f} s", flush=True)
        faults += found
    if faults:
        print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
