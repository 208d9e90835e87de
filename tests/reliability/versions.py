"""The test suite with every Python from 3.11 and with the oldest and the newest NumPy that setup.cfg allows.

    python -m tests.reliability.versions [--only 3.13] [--tests tests/test_ops.py ...] [--folder runs/versions]

Each combination gets a virtual environment of its own with `pip install -e '.[test]'`, in --folder, which a second
call reuses. Interpreters are looked for as ~/.pyenv/versions/3.X.*/bin/python, then as python3.X. A
version that is not installed has a row, too. Every row is written to tests/reliability/results/versions.json and .md
when it is finished; with --tests nothing is written.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common.machine import machine_facts
from benchmarks.common.tables import facts_list, markdown_head, markdown_row

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
OLDEST = re.search(r"numpy>=(\S+)", (ROOT / "setup.cfg").read_text(encoding="utf-8"))[1]
COMBINATIONS = [("3.11", f"=={OLDEST}"), ("3.14", ""), ("3.13", ""), ("3.12", ""), ("3.11", "")]
"""(version of Python, version of NumPy or "" for the newest that pip finds)"""

STRICT = ["-W", "error::DeprecationWarning", "-W", "error::PendingDeprecationWarning", "-W", "error::SyntaxWarning"]
"""Options that turn warnings of deprecation into errors in the process of the tests."""


def interpreter(version: str) -> str | None:
    """The path of this Python; None if it is not installed."""
    found = sorted(Path("~/.pyenv").expanduser().glob(f"versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def environment(folder: Path, version: str, numpy: str) -> Path | None:
    """The Python of the combination's virtual environment; None if there is no such interpreter."""
    base = interpreter(version)
    if base is None:
        return None
    path = folder / f"{version}{numpy}"
    python = path / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        subprocess.run([base, "-m", "venv", str(path)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--upgrade", "-e", ".[test]", f"numpy{numpy}"]
    subprocess.run(install, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    return python


def run_suite(python: Path, tests: list[str], strict: bool) -> dict:
    """Run the tests; returns the numbers of passed, skipped and failed tests, and the names of those that failed."""
    versions = "import numpy, platform; print(platform.python_version(), numpy.__version__)"
    found = subprocess.run([python, "-c", versions], capture_output=True, text=True, check=True).stdout.split()
    began = time.monotonic()
    command = [str(python), *(STRICT if strict else []), "-m", "pytest", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", errors="replace")
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped|failed|error)", done.stdout)}
    return {
        "Python": found[0],
        "NumPy": found[1],
        "warnings are errors": strict,
        **{word: counts.get(word, 0) for word in ("passed", "skipped", "failed", "error")},
        "seconds": round(time.monotonic() - began),
        "exit code": done.returncode,
        "failures": re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE),
    }


def save(rows: dict[str, dict], facts: dict) -> None:
    RESULTS.mkdir(exist_ok=True)
    table = {"command": "python -m tests.reliability.versions", "rows": rows, "machine": facts}
    (RESULTS / "versions.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    columns = ["Python", "NumPy", "passed", "skipped", "failed", "error", "seconds"]
    lines = ["# The suite with several versions", "", "`python -m tests.reliability.versions`", ""]
    lines += markdown_head(columns)
    lines += [markdown_row([str(row.get(column, "")) for column in columns]) for row in rows.values()]
    lines += ["", *facts_list({name: value for name, value in facts.items() if name not in ("Python", "NumPy")})]
    (RESULTS / "versions.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.versions", description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", metavar="3.X", help="this Python (again for more; default: all)")
    parser.add_argument("--tests", nargs="+", default=[], help="what pytest is given (default: the suite)")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "versions", help="of the environments")
    options = parser.parse_args(argv)
    path = RESULTS / "versions.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}
    facts, good = machine_facts(), True
    for version, numpy in COMBINATIONS:
        if options.only and version not in options.only:
            continue
        name = f"Python {version}, NumPy {numpy.strip('=') or 'newest'}"
        python = environment(options.folder.absolute(), version, numpy)
        newest = version == "3.13" and not numpy
        row = (
            {"Python": f"{version}: not installed here"} if python is None else run_suite(python, options.tests, newest)
        )
        print(name, json.dumps(row), flush=True)
        good = good and row.get("exit code") in (None, 0)
        if not options.tests:
            rows[name] = row | {"commit": facts["commit"]}
            save(rows, facts)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
