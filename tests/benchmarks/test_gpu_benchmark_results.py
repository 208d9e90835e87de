"""The results of the GPU benchmark: kept between calls, written whole, and with every failure recorded."""

import json
import re
import sys
from pathlib import Path

import pytest
from extras import need
from rank_jobs import wait_for

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


def test_the_screen_has_what_is_right_what_is_wrong_and_the_three_largest_costs():
    rows = {f"kernel {n}": {"calls": 1, "ms": 8.0 - n, "MB": 1.0, "of the bandwidth": 0.5} for n in range(4)}
    stages = {
        "base": {"bfloat16": {"ours": GOOD, "eager": {"failed": "no\nTorch"}}, "says": "ours 2 ms"},
        "kernels": {"update ms": 40.0, "kernels": rows, "says": "40 ms"},
        "nccl": {"left out": "the time is used up"},
        "tests": FAILED,
    }
    assert results.screen(stages).split("\n") == [
        "right:",
        "  kernels: 40 ms",
        "wrong:",
        "  base: bfloat16, eager: no Torch",
        "  tests: not done after 3 seconds",
        "not known:",
        "  nccl: the time is used up",
        "the largest costs:",
        *(f"  kernel {n}: {8 - n}.00 ms, {(8 - n) / 40:.0%} of an update, 50% of the bandwidth" for n in range(3)),
    ]
    assert results.outcome(stages["base"]) == "failed: bfloat16, eager: no\nTorch"  # never "done"
    many = {f"stage {n}": FAILED for n in range(100)}
    assert len(results.screen(stages | many).split("\n")) < 25


def test_after_an_error_that_lasts_no_other_part_is_tried():
    """A CUDA error such as an illegal address stays: every later call of the process fails for it."""

    def broken(*_):
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    found = stage_process.one_by_one(["bfloat16", "tf32"], broken, {}, broken)
    assert found.keys() == {"bfloat16", "failed"}
    assert found["failed"].startswith("ended after bfloat16, as the device answers no more: RuntimeError: cudaError")
    found = stage_process.one_by_one(["bfloat16", "tf32"], broken, {}, lambda: None)
    assert found.keys() == {"bfloat16", "tf32"}


def test_the_first_run_knows_most_after_few_seconds():
    """What decides comes first, and a stage that hangs leaves time for those that follow."""
    first = {name: stage for name, stage in stages.STAGES.items() if stage.is_first}
    assert list(stages.STAGES)[: len(first)] == list(first)
    assert list(first)[:3] == ["doctor", "compile", "tests"]
    names, limits = list(first), [stage.limit for stage in first.values()]
    assert sum(limits[: names.index("kernels")]) < gpu.SECONDS and max(limits) < gpu.SECONDS / 3


def test_the_stage_of_the_tests_looks_where_all_tests_of_a_gpu_are():
    marked = re.compile(r"^(@pytest\.mark\.any_device|@pytest\.mark\.gpu|pytestmark = .*(any_device|mark\.gpu))", re.M)
    tests = Path(__file__).parents[1]
    found = {
        path.relative_to(tests.parent).parts[:2]
        for path in tests.rglob("test_*.py")
        if path != Path(__file__) and marked.search(path.read_text(encoding="utf-8"))
    }
    assert found and {"/".join(parts) for parts in found} <= {*stages.TESTS}


MARKED = """
import pytest
pytestmark = pytest.mark.gpu
def test_right(): pass
def test_wrong(): assert 1 == 2
@pytest.mark.skip
def test_not_here(): pass
"""


@pytest.mark.slow
def test_tests_are_counted_and_those_that_fail_are_named(tmp_path):
    where, log = tmp_path / "test_marked.py", tmp_path / "log"
    where.write_text(MARKED)
    found = stages.correctness(log, 100.0, str(where))
    assert (found["passed"], found["failed"], found["skipped"]) == (1, f"exit code 1 of pytest; see {log}", 1)
    ((_, first), (name, why)) = results.failures(found)
    assert first == found["failed"] and name.endswith("test_marked.py::test_wrong") and why == "see the log"
    assert stages.correctness(log, 0.01, str(where))["failed"] == "not done after 0 seconds"


@without_driver
@pytest.mark.cuda
def test_a_card_that_cannot_be_used_is_named_and_nothing_is_measured(tmp_path, capsys, monkeypatch):
    need("cupy")
    monkeypatch.setattr(gpu, "driver_version", lambda: 13000)
    assert gpu.main(["--first-run", "--out", str(tmp_path / "results")]) == 0
    wanted = "nothing was measured: failed: CuPy is installed but there is no NVIDIA driver; install the driver"
    assert wanted in capsys.readouterr().out


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
