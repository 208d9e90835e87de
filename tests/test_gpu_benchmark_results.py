"""The results of the GPU benchmark: kept between calls, written whole, and with every failure recorded."""

import json
from unittest.mock import Mock

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import stages
from minitransformer.cuda_diagnosis import driver_version

without_driver = pytest.mark.skipif(driver_version() > 0, reason="this machine has an NVIDIA driver")


def test_stages_of_an_earlier_call_on_the_same_commit_are_kept(tmp_path):
    mark = {"quick": False, "card": "A"}
    facts, measured = {"commit": "abc"}, {"base": {"seconds": 1.0} | mark}
    gpu.save(tmp_path, facts, measured)
    assert gpu.earlier(tmp_path, facts, mark) == measured
    assert gpu.earlier(None, facts, mark) == gpu.earlier(tmp_path, {"commit": "def"}, mark) == {}
    assert gpu.earlier(tmp_path, facts, mark | {"quick": True}) == gpu.earlier(tmp_path, facts, {"card": "B"}) == {}
    for commit in ("unknown", "abc + changes"):
        gpu.save(tmp_path, {"commit": commit}, measured)
        assert gpu.earlier(tmp_path, {"commit": commit}, mark) == {}


def test_what_was_measured_earlier_stays_when_the_time_is_used_up(tmp_path, monkeypatch):
    facts = {"commit": "abc", "card": "A"}
    for name, value in (("driver_version", 13000), ("cuda_trouble", ""), ("gpu_facts", facts)):
        monkeypatch.setattr(gpu, name, lambda value=value: value)
    monkeypatch.setattr(gpu, "run_stage", lambda *asked: {"seconds": 1.0})
    gpu.main(["--out", str(tmp_path), "--stages", "ops"])
    gpu.main(["--out", str(tmp_path), "--stages", "ops", "base", "--seconds", "1"])
    mark = {"quick": False, "card": "A"}
    wanted = {"ops": {"seconds": 1.0} | mark, "base": {"left out": "the time is used up"} | mark}
    assert json.loads((tmp_path / "gpu.json").read_text())["stages"] == wanted


def test_a_failed_write_leaves_the_old_results_intact(tmp_path, monkeypatch):
    gpu.save(tmp_path, {"commit": "abc"}, {})
    before = (tmp_path / "gpu.json").read_bytes()
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(OSError, match="gpu.json"):
        gpu.save(tmp_path, {"commit": "def"}, {})
    assert (tmp_path / "gpu.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"gpu.json", "gpu.md"}


def test_every_stage_has_a_limit_and_every_limit_a_stage():
    assert set(gpu.LIMITS) == set(stages.STAGES)


@without_driver
def test_a_failed_or_late_stage_is_recorded_and_the_others_run(tmp_path):
    failed = gpu.run_stage("ceilings", True, 120)
    assert failed["failed"] == "exit status 1" and "device cuda: " in failed["end"][-1]
    late = gpu.run_stage("ceilings", True, 0.01)
    assert late["failed"] == "not done after 0 seconds"
    gpu.save(tmp_path / "results", {"CuPy": "14"}, {"ceilings": failed, "nccl": late})
    assert json.loads((tmp_path / "results" / "gpu.json").read_text())["stages"]["ceilings"] == failed
    assert "failed: not done after 0 seconds" in (tmp_path / "results" / "gpu.md").read_text()


@without_driver
def test_without_a_gpu_nothing_is_measured_and_nothing_fails(tmp_path, capsys):
    assert gpu.main(["--quick", "--out", str(tmp_path / "results")]) == 0
    assert "nothing was measured: there is no NVIDIA driver" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
