"""The results of the GPU benchmark: kept between calls, written whole, and with every failure recorded."""

import json
import sys
from pathlib import Path

import pytest
from rank_jobs import wait_for

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import results, stage_process
from minitransformer.cuda_diagnosis import driver_version

without_driver = pytest.mark.skipif(driver_version() > 0, reason="this machine has an NVIDIA driver")
GOOD, FAILED = {"seconds": 1.0, "ms": 2}, {"failed": "not done after 3 seconds", "seconds": 3.0}
HANGS = """
import subprocess, sys, time
from benchmarks.gpu.stage_process import end_with_caller
end_with_caller(int(sys.argv[sys.argv.index("--alive") + 1]))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
print('{"bfloat16": 1}', 'no result', f'{{"bfloat16": 1, "child": {child.pid}}}', "17", sep="\\n", flush=True)
sys.stdout.write('{"bfloat16": 2, "tf32"')
sys.stdout.flush()
time.sleep(300)
"""
"""A stage that measures something, starts a process and then never ends."""


def facts_of(commit, card="NVIDIA H100"):
    return {"commit": commit, "card": card}


def test_stages_of_an_earlier_call_on_the_same_commit_and_card_are_kept(tmp_path):
    results.Results(tmp_path, facts_of("abc"), False).keep("base", GOOD)
    assert results.Results(tmp_path, facts_of("abc"), False).stages == {"base": GOOD}
    for facts, quick in ((facts_of("def"), False), (facts_of("abc", "T4"), False), (facts_of("abc"), True)):
        assert results.Results(tmp_path, facts, quick).stages == results.Results(None, facts, quick).stages == {}
    for commit in ("unknown", "abc + changes"):
        results.Results(tmp_path, facts_of(commit), False).keep("base", GOOD)
        assert results.Results(tmp_path, facts_of(commit), False).stages == {}


def test_results_of_another_commit_are_never_overwritten(tmp_path):
    for number, commit in enumerate(("abc", "def", "def + changes")):
        results.Results(tmp_path, facts_of(commit), False).keep("base", {"ms": number})
    found = {path.name: json.loads(path.read_text())["stages"]["base"]["ms"] for path in tmp_path.glob("*.json")}
    names = ("abc", "def", "def-changes")
    assert found == {f"gpu-nvidia-h100-{name}.json": number for number, name in enumerate(names)}


def test_a_failure_never_replaces_what_was_measured():
    partly = {"bfloat16": GOOD, "tf32": FAILED, "failed": "exit status 1", "end": ["x"]}
    assert results.combined(None, FAILED) == results.combined(FAILED, FAILED) == FAILED
    assert results.combined(FAILED, GOOD) == results.combined(partly, GOOD) == GOOD
    assert results.combined(GOOD, FAILED) == GOOD | {"failed later": FAILED["failed"]}
    assert results.combined(partly, {"left out": "the time is used up"}) == partly
    assert results.combined(partly, FAILED) == {"bfloat16": GOOD, "tf32": FAILED} | FAILED
    again = {"bfloat16": {"failed": "y"}, "tf32": {"ms": 5}, "failed": "z"}
    assert results.combined(partly, again) == {"bfloat16": GOOD, "tf32": {"ms": 5}, "failed": "z"}


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be reaped."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.slow
def test_a_late_stage_keeps_what_it_printed_and_leaves_no_process(monkeypatch):
    monkeypatch.setattr(stage_process, "COMMAND", (sys.executable, "-c", HANGS))
    parts: list[dict] = []
    found = stage_process.run_stage("base", 3.0, [], parts.append)
    assert parts[0] == {"bfloat16": 1} and found == parts[1] | {
        "failed": "not done after 3 seconds",
        "seconds": found["seconds"],
    }
    wait_for(lambda: not is_running(found["child"]))


@without_driver
def test_without_a_gpu_nothing_is_measured_and_nothing_fails(tmp_path, capsys):
    assert gpu.main(["--quick", "--out", str(tmp_path / "results")]) == 0
    assert "nothing was measured: there is no NVIDIA driver" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
