"""``launch``: the real command line on a real corpus, signals passed on, nothing left behind, and wrong use."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from rank_jobs import (
    TESTS,
    Ended,
    check_error,
    check_gone,
    environment,
    launch_command,
    of_these_tests,
    run,
    wait_for_checkpoint,
)
from systems import needs
from tiny_run import tiny_text, write_config

from minitransformer.checkpoints import RunFolder
from minitransformer.cli.main import main
from minitransformer.distributed import launch
from minitransformer.errors import ConfigError
from minitransformer.training import read_metrics

RECIPE = str(TESTS.parent / "examples" / "multi30k" / "multi30k.toml")

pytestmark = pytest.mark.mpi


@pytest.fixture
def recipe(tmp_path):
    """A config of a tiny model on a tiny text, as a file."""
    model = {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}
    training = {"directory": str(tmp_path / "run"), "micro_batches": 2, "updates": 6, "save_every": 2}
    return write_config(tmp_path / "tiny.toml", model=model, data=tiny_text(tmp_path), training=training)


def test_the_command_trains_with_two_ranks_and_prints_once(recipe):
    command = [sys.executable, "-m", "minitransformer"]
    ended = run([*command, "launch", "-n", 2, "--", "train", recipe, "--profile"])
    assert ended.code == 0, ended.lines
    assert sum(f"{recipe.parent / 'run'}: 6 updates, done" in line for line in ended.lines) == 1
    assert sum("where the time of an update goes" in line for line in ended.lines) == 1
    assert RunFolder(recipe.parent / "run").newest_whole(pytest.fail).update == 6
    assert json.loads((recipe.parent / "run" / "cost.json").read_text(encoding="utf-8"))["devices"] == 2


@pytest.fixture
def endless_job(tmp_path, request):
    """``launch`` with two ranks, or as many as the test says, that have written a checkpoint."""
    settings = '{"updates": 1000000, "timeout": 1.5}'
    command = launch_command(getattr(request, "param", 2), "ranked_run.py", tmp_path, settings)
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, env=environment(), **options)
    wait_for_checkpoint(tmp_path)
    yield process
    process.kill()  # where the test has failed; the ranks end with it
    process.wait()


@needs("signals between processes")
@pytest.mark.parametrize(
    ("endless_job", "number"),
    [*((2, number) for number in launch.SIGNALS), (1, signal.SIGTERM)],
    indirect=["endless_job"],
)
def test_a_signal_makes_the_ranks_save_and_leave(tmp_path, endless_job, number):
    os.killpg(endless_job.pid, number)  # as a terminal does
    assert endless_job.wait(20) == 128 + number
    assert endless_job.stderr.read() == ""
    trained = [line for line in read_metrics(tmp_path / "metrics.jsonl") if line["kind"] == "train"]  # every 2 updates
    assert trained[-1]["update"] == RunFolder(tmp_path).newest_whole(pytest.fail).update // 2 * 2
    assert of_these_tests("cmdline") == []


@needs("signals between processes")
@pytest.mark.slow
def test_a_job_that_was_stopped_as_a_whole_goes_on(endless_job):
    processes = [int(path.parent.name) for path in of_these_tests("stat")]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in processes:
            os.kill(process, number)
        time.sleep(2)  # more than training.timeout
    endless_job.send_signal(signal.SIGTERM)
    assert endless_job.wait(20) == 143
    assert endless_job.stderr.read() == ""


@needs("/proc")
def test_no_process_of_a_job_has_a_socket(endless_job):
    """Nothing listens, so that nobody can connect."""
    opened = [os.readlink(path) for path in of_these_tests("fd/*") if path.is_symlink()]
    assert any(target.startswith("pipe:") for target in opened)
    assert not any(target.startswith("socket:") for target in opened)


@needs("signals between processes")
def test_ranks_do_not_outlive_a_launch_that_is_killed(tmp_path, endless_job):
    endless_job.kill()
    endless_job.wait()
    check_gone()
    output = "minitransformer train: launch ended unexpectedly: it was killed, or it crashed\n"
    assert endless_job.stderr.read() == output
    RunFolder(tmp_path).newest_whole(pytest.fail)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "0", "--", "train", "x.toml"], "launch: -n must be at least 1, got 0"),
        (["-n", "2", "--", "translate"], "launch: what follows -- must be a train command, got translate"),
        (["-n", "2"], "launch: what follows -- must be a train command, got nothing"),
        (["-n", "2", "--", "train"], "train: the following arguments are required: CONFIG"),
        (["-n", "2", "--", "train", "x.toml", "--nonsense"], "train: unrecognized arguments: --nonsense"),
        (["-n", "2", "--", "train", "/no/such.toml"], "launch: /no/such.toml: cannot be read: No such file"),
        (["-n", "2", "--", "train", RECIPE, "--rank", "0"], "launch: --rank, --size and --job must be left out"),
        (["-n", "9" * 20, "--", "train", RECIPE], "launch: -n must be at most training.micro_batches, 2, got 99999"),
    ],
)
def test_wrong_use_is_one_line(words, message, capsys):
    code = main(["launch", *words])
    check_error(Ended(code, capsys.readouterr().err.splitlines(), 0.0), message)


def test_a_rank_cannot_launch_others(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ConfigError, match="launch: must be started once, got the variables of a rank"):
        launch.launch(print, 2, print, print)


@needs("signals between processes")
def test_a_rank_that_dies_before_it_joins_is_named(tmp_path):
    """Both ranks import the module of their work; one does not survive it."""
    (tmp_path / "dies.py").write_text(
        "import multiprocessing, os, signal\n"
        "if multiprocessing.current_process().name.endswith('-2'):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "def work(group):\n    signal.pause()\n"
        "def explain(error):\n    return str(error), 2\n"
    )
    program = (
        "import dies; from minitransformer.distributed.launch import launch; launch(dies.work, 2, print, dies.explain)"
    )
    ended = run([sys.executable, "-c", program], PYTHONPATH=f"{TESTS.parent}{os.pathsep}{tmp_path}")
    assert re.fullmatch(r"rank 1 \(process \d+\) ended unexpectedly: it was killed by SIGKILL \(.*\)", *ended.lines)
    check_gone()
