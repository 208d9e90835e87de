"""The results of the GPU benchmark: kept between calls, written whole, and with every failure recorded."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import results, stage_process, stages
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


def test_stages_of_an_earlier_call_on_the_same_commit_are_kept(tmp_path):
    mark = {"quick": False, "card": "A"}
    facts, measured = {"commit": "abc"}, {"base": {"seconds": 1.0} | mark}
    results.save(tmp_path, facts, measured)
    assert results.earlier(tmp_path, facts, mark) == measured
    assert results.earlier(None, facts, mark) == results.earlier(tmp_path, {"commit": "def"}, mark) == {}
    assert (
        results.earlier(tmp_path, facts, mark | {"quick": True})
        == results.earlier(tmp_path, facts, {"card": "B"})
        == {}
    )
    for commit in ("unknown", "abc + changes"):
        results.save(tmp_path, {"commit": commit}, measured)
        assert results.earlier(tmp_path, {"commit": commit}, mark) == {}


def test_results_of_another_commit_are_set_aside_and_never_overwritten(tmp_path):
    mark = {"quick": False, "card": "A"}
    for number, commit in enumerate(("abc", "def", "abc", "def + changes", "def")):
        kept = results.Results(tmp_path, {"commit": commit}, mark)
        kept.keep("base", {"ms": number})
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert {name: each["stages"]["base"]["ms"] for name, each in found.items()} == {
        "gpu-abc.json": 0,
        "gpu-def.json": 1,
        "gpu-abc-2.json": 2,
        "gpu-def-changes.json": 3,
        "gpu.json": 4,
    }


def test_a_failure_never_replaces_what_was_measured():
    partly = {"bfloat16": GOOD, "tf32": FAILED, "failed": "exit status 1", "end": ["x"]}
    assert results.combined(None, FAILED) == results.combined(FAILED, FAILED) == FAILED
    assert results.combined(FAILED, GOOD) == results.combined(partly, GOOD) == GOOD
    assert results.combined(GOOD, FAILED) == GOOD | {"failed later": FAILED["failed"]}
    assert results.combined(partly, {"left out": "the time is used up"}) == partly
    assert results.combined(partly, FAILED) == {"bfloat16": GOOD, "tf32": FAILED} | FAILED
    again = {"bfloat16": {"failed": "y"}, "tf32": {"ms": 5}, "failed": "z"}
    assert results.combined(partly, again) == {"bfloat16": GOOD, "tf32": {"ms": 5}, "failed": "z"}


def test_what_was_measured_earlier_stays_when_the_time_is_used_up(tmp_path, monkeypatch):
    facts = {"commit": "abc", "card": "A"}
    for name, value in (("driver_version", 13000), ("cuda_trouble", ""), ("gpu_facts", facts)):
        monkeypatch.setattr(gpu, name, lambda value=value: value)
    monkeypatch.setattr(gpu, "run_stage", lambda name, *asked: {"seconds": 1.0})
    gpu.main(["--out", str(tmp_path), "--stages", "ops"])
    gpu.main(["--out", str(tmp_path), "--stages", "ops", "base", "--seconds", "1"])
    mark = {"quick": False, "card": "A"}
    wanted = {"ops": {"seconds": 1.0} | mark, "base": {"left out": "the time is used up"} | mark}
    assert json.loads((tmp_path / "gpu.json").read_text())["stages"] == wanted


def test_a_failed_write_leaves_the_old_results_intact(tmp_path, monkeypatch):
    results.save(tmp_path, {"commit": "abc"}, {})
    before = (tmp_path / "gpu.json").read_bytes()
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(OSError, match="gpu.json"):
        results.save(tmp_path, {"commit": "def"}, {})
    assert (tmp_path / "gpu.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"gpu.json", "gpu.md"}


def test_every_stage_has_a_limit_and_every_limit_a_stage():
    assert set(gpu.LIMITS) == set(stages.STAGES)


def test_a_call_fits_into_ten_minutes():
    assert max(gpu.LIMITS.values()) <= gpu.SECONDS <= 570


@without_driver
def test_a_failed_or_late_stage_is_recorded_and_the_others_run(tmp_path):
    failed = stage_process.run_stage("ceilings", 120, ["--quick"], print)
    assert failed["failed"] == "exit status 1" and "device cuda: " in failed["end"][-1]
    late = stage_process.run_stage("ceilings", 0.01, ["--quick"], print)
    assert late["failed"] == "not done after 0 seconds"
    results.save(tmp_path / "results", {"CuPy": "14"}, {"ceilings": failed, "nccl": late})
    assert json.loads((tmp_path / "results" / "gpu.json").read_text())["stages"]["ceilings"] == failed
    assert "failed: not done after 0 seconds" in (tmp_path / "results" / "gpu.md").read_text()


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be reaped."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_late_stage_keeps_what_it_printed_and_leaves_no_process(monkeypatch):
    monkeypatch.setattr(stage_process, "COMMAND", (sys.executable, "-c", HANGS))
    parts: list[dict] = []
    found = stage_process.run_stage("base", 5.0, [], parts.append)
    assert parts[0] == {"bfloat16": 1} and found == parts[1] | {
        "failed": "not done after 5 seconds",
        "seconds": found["seconds"],
    }
    wait_until(lambda: not is_running(found["child"]))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_killed_call_leaves_its_results_and_no_process(tmp_path):
    caller = f"""
import json, sys
from pathlib import Path
from benchmarks.gpu import __main__ as gpu, stage_process
gpu.driver_version, gpu.cuda_trouble = lambda: 1, lambda: ""
gpu.gpu_facts = lambda: {{"commit": "abc", "card": "A"}}
stage_process.COMMAND = (sys.executable, "-c", Path({str(tmp_path / "hangs.py")!r}).read_text())
gpu.main(["--out", {str(tmp_path)!r}, "--stages", "base"])
"""
    (tmp_path / "hangs.py").write_text(HANGS)
    process = subprocess.Popen([sys.executable, "-c", caller], env=os.environ | {"PYTHONPATH": os.getcwd()})
    saved = tmp_path / "gpu.json"
    wait_until(lambda: saved.exists() and "child" in saved.read_text())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = json.loads(saved.read_text())["stages"]["base"]
    assert found["bfloat16"] == 1 and found["failed"] == "cut short"
    wait_until(lambda: not is_running(found["child"]))


def test_the_log_of_the_tests_is_written_while_they_run(tmp_path, monkeypatch, capsys):
    def run(command, stdout, stderr):
        assert "-m" in command and "gpu" in command and stderr == subprocess.STDOUT
        stdout.write("1 failed, 552 passed\n")
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(stages.subprocess, "run", run)
    log = tmp_path / "logs" / "gpu-tests.log"
    found = stages.correctness(log)
    assert json.loads(capsys.readouterr().out) == {"log": str(log)}
    assert found["failed"] == "exit status 1 of pytest" and found["end"][0] == "1 failed, 552 passed"


@without_driver
def test_without_a_gpu_nothing_is_measured_and_nothing_fails(tmp_path, capsys):
    assert gpu.main(["--quick", "--out", str(tmp_path / "results")]) == 0
    assert "nothing was measured: there is no NVIDIA driver" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
