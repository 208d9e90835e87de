"""Does a test of each claim of the paper fail if the line that implements the claim is changed?

    python -m tests.reliability.paper_claims [--section 3.2]

docs/paper.md lists the claims; the changes are in docs/claims.toml. Each is made in a copy of the checkout, where the
claim's own tests are run. The exit code is 0 if every change is noticed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.claims import Claim, read_claims

ROOT = Path(__file__).parents[2]
COPIED = ("minitransformer", "tests", "examples", "benchmarks", "docs", "setup.cfg", "pyproject.toml")
LIMIT = 300
"""Seconds; a changed program may never end."""


def copy_checkout(folder: Path) -> None:
    """What the tests of claims need, without compiled files, which would hide a change."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


def broken(claim: Claim) -> tuple[str, str]:
    """(file, its text with ``claim.becomes`` in place of ``claim.line``)"""
    for file, _, line in claim.locations():
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
        if line and claim.line in lines[line - 1]:
            lines[line - 1] = lines[line - 1].replace(claim.line, claim.becomes)
            return file, "".join(lines)
    raise LookupError(claim.line)


def failing(folder: Path, tests: list[str]) -> list[str]:
    """Which of the tests fail in the copy, without their parameters; those that could not be run do not count."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    settings = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    try:
        done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return [f"no end after {LIMIT} s"]
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest {' '.join(tests)} must run, got exit code {done.returncode}:\n{done.stdout}")
    return sorted({re.sub(r"\[.*", "", name) for name in re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)})


def trial(folder: Path, *claims: Claim) -> list[str]:
    """The claims' tests that fail in the copy while their lines, in different files, are changed."""
    changed = dict(map(broken, claims))
    for file, text in changed.items():
        (folder / file).write_text(text, encoding="utf-8")
    try:
        return failing(folder, [test for claim in claims for test in claim.test])
    finally:
        for file in changed:
            shutil.copy(ROOT / file, folder / file)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.reliability.paper_claims", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--section", default="", help="of the paper (default: all)")
    section = parser.parse_args().section
    within, good = f"{section}." if section else "", True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_checkout(folder)
        claims = [claim for claim in read_claims() if claim.line and f"{claim.section}.".startswith(within)]
        if failed := failing(folder, sorted({test for claim in claims for test in claim.test})):
            raise RuntimeError(f"no test must fail before a change, got {', '.join(failed)}")
        for claim in claims:
            failed = trial(folder, claim)
            print(claim.section, claim.text, failed or "NOT NOTICED", sep="  ", flush=True)
            good = good and bool(failed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
