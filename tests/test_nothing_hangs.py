"""Whatever happens to one rank, all end soon, with one message that names it, and the last checkpoint is whole."""

import json

import pytest
from rank_jobs import by_mpi, check_end, check_error, check_folder, check_gone, launched
from systems import needs

pytestmark = [pytest.mark.mpi, needs("signals between processes")]

TIMEOUT = 2.5  # seconds, of training.timeout; far above what a busy machine delays a sign of life
AT = 6  # the update before which it happens; checkpoints are written after updates 4, 8, ...
SETTINGS = json.dumps({"updates": 20, "timeout": TIMEOUT})
KILLED = r"ended unexpectedly: it was killed"
STOPPED = rf"has been silent for {TIMEOUT} s \(training.timeout\): it is stopped"
MESSAGES = {
    "raise": "rank {rank}: ValueError: a fault of the program",
    "memory": r"rank {rank}: not enough memory \(Unable to allocate 9.00 TiB\); take smaller batches",
    "kill": rf"rank {{rank}} \(process \d+ on .*\) {KILLED}",
    "stop": rf"rank {{rank}} \(process \d+ on .*\) {STOPPED}",
    "endless": r"rank {rank} must reach collective \d+ within 2.5 s \(training.timeout\), got only to \d+",
}


def check(folder, ended, fault: str, rank: int) -> None:
    check_end(folder, ended, MESSAGES[fault].format(rank=rank), 1 if fault == "raise" else 2)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fault", MESSAGES)
def test_a_failing_rank_ends_a_launched_job_with_one_message(tmp_path, fault, rank, size):
    ended = launched(size, tmp_path, SETTINGS, fault, rank, AT)
    check(tmp_path, ended, fault, rank)
    assert ended.seconds < 2 * TIMEOUT + 10
    if fault == "kill":
        assert "it was killed by signal 9 (SIGKILL; so the system does when memory runs out)" in ended.lines[0]


def test_a_single_rank_is_supervised_as_well(tmp_path):
    ended = launched(1, tmp_path / "killed", SETTINGS, "kill", 0, AT)
    check(tmp_path / "killed", ended, "kill", 0)
    ended = launched(1, tmp_path / "whole", SETTINGS)
    assert (ended.code, ended.lines) == (0, [])


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("fault", MESSAGES)
def test_a_failing_rank_ends_a_job_of_mpiexec_with_one_message(tmp_path, fault, size):
    ended = by_mpi(size, "ranked_run.py", tmp_path, SETTINGS, fault, 1, AT)
    if fault != "kill":
        check(tmp_path, ended, fault, 1)
    else:  # mpiexec sees it too, and may be the faster one to tell
        assert ended.code != 0
        assert any("ended unexpectedly" in line or "BAD TERMINATION" in line for line in ended.lines)
        check_folder(tmp_path)


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_the_loss_of_the_rank_that_supervises_is_noticed_by_the_others(tmp_path, fault):
    ended = by_mpi(2, "ranked_run.py", tmp_path, SETTINGS, fault, 0, AT)
    assert ended.code != 0
    if fault == "stop":
        assert ended.lines == [
            f"minitransformer train: rank 0 has been silent for {TIMEOUT} s: is it stopped? (seen from rank 1)"
        ]
    check_folder(tmp_path)


def test_the_others_wait_while_rank_0_validates_however_long(tmp_path):
    ended = launched(2, tmp_path, json.dumps({"updates": 10, "timeout": 1.5}), "validate", 0, 0)
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
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("start", ["launch", "mpirun"])
def test_ranks_with_other_code_config_or_data_are_refused_at_once(tmp_path, fault, words, size, start):
    job = [tmp_path, SETTINGS, fault, 1, 0]
    ended = by_mpi(size, "ranked_run.py", *job) if start == "mpirun" else launched(size, *job)
    check_error(ended, f"train: {words}")
    assert not list(tmp_path.iterdir())  # nothing has begun
    check_gone(tmp_path)
