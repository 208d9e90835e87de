"""Whatever happens to one rank, all end soon, with one message that names it, and the last checkpoint is whole."""

import json

import pytest
from rank_jobs import by_mpi, check_end, check_error, check_folder, check_gone, launched
from systems import needs

pytestmark = [pytest.mark.mpi, needs("signals between processes")]

TIMEOUT = 2.5  # seconds, of training.timeout; far above what a busy machine delays a sign of life
AT = 6  # the update before which it happens; checkpoints are written after updates 4, 8, ...
SETTINGS = json.dumps({"updates": 20, "timeout": TIMEOUT})
LATE = r"rank {rank} must reach sum \d+ within 2.5 s \(training.timeout\), as the others have, got only to sum \d+; is"
MESSAGES = {
    "raise": "rank {rank}: ValueError: a fault of the program",
    "memory": r"rank {rank}: not enough memory \(Unable to allocate 9.00 TiB\); take smaller batches",
    "kill": r"rank {rank} \(process \d+\) ended unexpectedly: it was killed by SIGKILL \(as the system does when ",
    "exit": r"rank {rank} \(process \d+\) ended unexpectedly, with exit code 0",
    "stop": LATE,
    "endless": LATE,
}
WAITED = r"rank (?!{rank})\d: sum \d+ must end within 2.5 s \(training.timeout\), got no answer from another rank: "


def check(folder, ended, fault: str, rank: int, messages: dict = MESSAGES) -> None:
    check_end(folder, ended, messages[fault].format(rank=rank), 1 if fault == "raise" else 2)


@pytest.mark.parametrize(
    ("fault", "rank", "size"),
    [*(("raise", 0, 2), ("memory", 1, 4)), *(("kill", 0, 2), ("exit", 1, 4)), *(("stop", 0, 2), ("endless", 1, 4))],
)
def test_a_failing_rank_ends_a_launched_job_with_one_message(tmp_path, fault, rank, size):
    ended = launched(size, "ranked_run.py", tmp_path, SETTINGS, fault, rank, AT)
    check(tmp_path, ended, fault, rank)


def test_a_single_rank_is_supervised_as_well(tmp_path):
    ended = launched(1, "ranked_run.py", tmp_path / "killed", SETTINGS, "kill", 0, AT)
    check(tmp_path / "killed", ended, "kill", 0)
    ended = launched(1, "ranked_run.py", tmp_path / "whole", SETTINGS)
    assert (ended.code, ended.lines) == (0, [])


@pytest.mark.parametrize(
    ("fault", "rank", "size"), [("raise", 1, 2), ("memory", 0, 4), ("kill", 1, 2), ("stop", 0, 4), ("endless", 1, 2)]
)
def test_a_failing_rank_ends_a_job_of_mpiexec_with_one_message(tmp_path, fault, rank, size):
    """Where a rank hangs, one of those that wait for it says so."""
    ended = by_mpi(size, "ranked_run.py", tmp_path, SETTINGS, fault, rank, AT)
    if fault != "kill":
        check(tmp_path, ended, fault, rank, MESSAGES | {"stop": WAITED, "endless": WAITED})
    else:  # mpiexec itself says which process was killed, and by which signal
        assert ended.code != 0 and any("BAD TERMINATION" in line or "signal 9" in line for line in ended.lines)
        check_folder(tmp_path)


@pytest.mark.slow
def test_the_others_wait_while_rank_0_validates_however_long(tmp_path):
    ended = launched(2, "ranked_run.py", tmp_path, json.dumps({"updates": 10, "timeout": 1.5}), "validate", 0, 0)
    assert (ended.code, ended.lines) == (0, [])
    assert ended.seconds > 4


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("code", r"rank 1 must have rank 0's value of the code \(hash of its files\), [0-9a-f]{16}..., got "),
        ("config", "rank 1 must have rank 0's value of training.lr_scale, 1.0, got 0.5$"),
        ("data", r"rank 1 must have rank 0's value of the training data \(fingerprint\), [0-9a-f]{16}..., got "),
    ],
)
@pytest.mark.parametrize(("start", "size"), [("launch", 4), ("mpirun", 2)])
def test_ranks_with_other_code_config_or_data_are_refused_at_once(tmp_path, fault, words, start, size):
    job = [tmp_path, SETTINGS, fault, 1, 0]
    ended = by_mpi(size, "ranked_run.py", *job) if start == "mpirun" else launched(size, "ranked_run.py", *job)
    check_error(ended, f"train: {words}")
    assert not list(tmp_path.iterdir())  # nothing has begun
    check_gone()
