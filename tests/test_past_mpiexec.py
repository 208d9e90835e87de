"""Ranks of ``launch`` write past mpiexec: their words come out untouched and at once, mpiexec's own do not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from rank_checks import AT, SETTINGS, check_end
from rank_jobs import TESTS, Ended, environment, mpiexec

pytestmark = pytest.mark.mpi

BANNER = f"""
{"=" * 83}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4711 RUNNING AT host
=   EXIT CODE: 9
{"=" * 83}
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
"""
FAKE = f"""#!{sys.executable}
import os, subprocess, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("HYDRA build details:"))
def talk():
    for descriptor in (1, 2):
        os.write(descriptor, {BANNER.encode()!r})
talk()
at = sys.argv.index("-n") + 1
size, words = sys.argv[at], sys.argv[at + 1 :]
if os.environ.get("FAULT") == "cannot start":
    sys.exit(255)
ranks = [
    subprocess.Popen(words, close_fds=False, env=os.environ | {{"RANK": str(rank), "WORLD_SIZE": size}})
    for rank in range(int(size))
]
codes = [rank.wait() for rank in ranks]
talk()
sys.exit(max(map(abs, codes)))
"""
LAUNCH = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from minitransformer.cli.common import print_line
from minitransformer.distributed.supervision import launch
fake, size, *program = sys.argv[1:]
if fake:
    launch._mpiexec = lambda: fake
sys.exit(launch.Launch(program, int(size), lambda message: print_line("train", message), "mpi").wait())
"""


@pytest.fixture
def fake(tmp_path):
    """An mpiexec that talks before and after the ranks, on both of its streams."""
    mpiexec()
    path = tmp_path / "mpiexec"
    path.write_text(FAKE)
    path.chmod(0o755)
    return path


def words_of(starter, size: int, *program: object) -> list[str]:
    return [sys.executable, "-c", LAUNCH, *map(str, (starter, size, *program))]


def test_what_ranks_write_passes_untouched_and_what_mpiexec_writes_does_not(fake, tmp_path):
    said = f"\r 10%\r 20%{BANNER}=   BAD TERMINATION of a sentence\n\n\xff\r 30%".encode("latin-1")
    program = tmp_path / "talks.py"
    program.write_text(f"import os\nos.write(1, {said!r} * 9)\nos.write(2, {said!r})\n")
    done = subprocess.run(words_of(fake, 1, program), env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, said * 9, said)


def test_nothing_of_a_long_output_is_lost_and_exit_codes_pass(fake, tmp_path):
    program = tmp_path / "talks.py"
    program.write_text("import sys\nfor number in range(500_000):\n    print(number)\nsys.exit(7)\n")
    done = subprocess.run(words_of(fake, 1, program), env=environment(), capture_output=True, check=False)
    assert done.returncode == 7
    assert done.stdout == b"".join(b"%d\n" % number for number in range(500_000))


@pytest.mark.parametrize("starter", ["fake", "real"])
def test_a_piece_of_a_line_is_there_at_once(request, tmp_path, starter):
    program, go = tmp_path / "waits.py", tmp_path / "go"
    program.write_text(
        f"import os, time\nos.write(2, b'\\r 50%')\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n"
    )
    mpiexec()
    path = request.getfixturevalue("fake") if starter == "fake" else ""
    process = subprocess.Popen(words_of(path, 1, program), env=environment(), stderr=subprocess.PIPE)
    assert os.read(process.stderr.fileno(), 100) == b"\r 50%"  # it would wait for ever
    assert process.poll() is None
    go.touch()
    assert process.communicate(timeout=60) == (None, b"")
    assert process.returncode == 0


@pytest.mark.parametrize("starter", ["fake", "real"])
def test_a_terminal_is_a_terminal_to_the_ranks(request, tmp_path, starter):
    program = tmp_path / "asks.py"
    program.write_text("import sys\nprint(sys.stdout.isatty(), sys.stderr.isatty(), sys.stdin.isatty())\n")
    mpiexec()
    path = request.getfixturevalue("fake") if starter == "fake" else ""
    ours, theirs = pty.openpty()
    done = subprocess.run(words_of(path, 1, program), env=environment(), stdout=theirs, stderr=theirs, check=False)
    assert (done.returncode, os.read(ours, 1000)) == (0, b"True True False\r\n")
    os.close(ours)
    os.close(theirs)


def test_what_mpiexec_says_is_told_where_nobody_else_knows_why_the_job_ended(fake, tmp_path):
    command = words_of(fake, 2, tmp_path / "none.py")
    variables = environment(FAULT="cannot start")
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (255, "", BANNER * 2)


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_a_rank_in_trouble_is_told_of_without_the_banner(fake, tmp_path, fault):
    folder = tmp_path / "run"
    command = words_of(fake, 2, TESTS / "ranked_run.py", folder, SETTINGS, fault, 1, AT)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    check_end(folder, Ended(done.returncode, lines, 0.0), fault, 1)
