"""Training on several ranks: the result of one, however many there are; only rank 0 writes; exact resume."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rank_jobs import by_mpi, check_error, launched
from tiny_run import final_state, metrics_of, tiny_config, tiny_corpus

from minitransformer.checkpoints import RunFolder
from minitransformer.training import Trainer

pytestmark = pytest.mark.mpi


def trained(folder: Path, size: int, start: str = "mpirun", **changes) -> np.ndarray:
    """The parameters after 20 updates of four micro-batches, float64, dropout on."""
    arguments = [folder, json.dumps({"updates": 20} | changes)]
    ended = {"mpirun": by_mpi, "launch": launched}[start](size, "ranked_run.py", *arguments)
    assert ended.code == 0, ended.lines
    assert [line for line in ended.lines if not line.startswith("train: resumed from")] == []
    return final_state(folder, changes.get("updates", 20))[0]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory) -> Path:
    """The folder of the run in one process without threads: what all others are compared with."""
    folder = tmp_path_factory.mktemp("one_process")
    model = {"dtype": "float64", "p_drop": 0.2}
    config = tiny_config(folder, model=model, micro_batches=4, updates=20, threads=1)
    assert Trainer(config, tiny_corpus(), progress=False).run().update == 20
    return folder


@pytest.mark.parametrize(
    ("size", "start", "changes"),
    [
        (1, "mpirun", {}),
        (3, "mpirun", {}),  # ranks with unequal numbers of micro-batches
        (2, "mpirun", {"threads": 2}),
        (4, "mpirun", {"deterministic_reduce": True}),
        (4, "launch", {}),
        (2, "launch", {"threads": 2}),
    ],
    ids=str,
)
def test_training_does_not_depend_on_the_number_of_ranks(size, start, changes, one_process, tmp_path, relative_error):
    parameters = trained(tmp_path, size, start, **changes)
    assert relative_error(parameters, final_state(one_process, 20)[0]) < 1e-9
    ours, theirs = metrics_of(tmp_path), metrics_of(one_process)
    assert [line.keys() for line in ours] == [line.keys() for line in theirs]  # each line once: only rank 0 writes
    for mine, expected in zip(ours, theirs, strict=True):
        for key, value in expected.items():
            assert mine[key] == (pytest.approx(value, rel=1e-8) if isinstance(value, float) else value), key


def test_sums_in_order_have_the_same_bits_in_every_run_and_whatever_started_the_ranks(tmp_path):
    runs = [
        trained(tmp_path / f"{start}{number}", 3, start, deterministic_reduce=True)
        for number, start in enumerate(["mpirun", "mpirun", "launch", "launch"])
    ]
    for other in runs[1:]:
        np.testing.assert_array_equal(other, runs[0])


@pytest.mark.slow
def test_eight_ranks_give_the_result_of_one_process(tmp_path, relative_error):
    """20 updates of eight micro-batches in float64, with dropout."""
    one, eight = (trained(tmp_path / str(size), size, "launch", micro_batches=8, threads=1) for size in (1, 8))
    assert relative_error(eight, one) < 1e-12


def test_a_run_resumes_on_another_number_of_ranks_with_the_same_data_order(one_process, tmp_path, relative_error):
    for updates, size in ((6, 2), (11, 4), (15, 1), (20, 2)):
        trained(tmp_path, size, updates=updates)
    assert relative_error(final_state(tmp_path, 20)[0], final_state(one_process, 20)[0]) < 1e-9
    steps = [line["update"] for line in metrics_of(tmp_path) if line["kind"] == "train"]
    assert steps == list(range(2, 21, 2))


def test_a_rank_that_finds_another_checkpoint_than_rank_0_ends_the_job(tmp_path):
    trained(tmp_path / "run", 2, updates=4)
    (whole,) = (tmp_path / "run" / "checkpoints").iterdir()
    bytes_before = whole.read_bytes()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    other = tmp_path / "copy" / "checkpoints" / whole.name
    for act, got in (
        (lambda: other.write_bytes(bytes_before[:-1] + b"?"), "got [0-9a-f]{16}...;"),
        (other.unlink, "got 'no such file';"),
    ):
        act()
        ended = by_mpi(2, "ranked_run.py", tmp_path / "run", '{"updates": 6}', "folder", 1, tmp_path / "copy")
        message = f"train: rank 1: checkpoint: {other} must be the file that rank 0 resumes from .*{got}"
        check_error(ended, message, only=False)
    assert whole.read_bytes() == bytes_before


def test_only_rank_0_writes(tmp_path):
    words = [tmp_path / "run", '{"updates": 10}', "folder", 1, tmp_path / "of_rank_1"]
    ended = by_mpi(2, "ranked_run.py", *words)
    assert (ended.code, ended.lines) == (0, [])
    assert RunFolder(tmp_path / "run").newest_whole(pytest.fail).update == 10
    assert not (tmp_path / "of_rank_1").exists()


@pytest.mark.parametrize("sigterm_at", [0, 1])
@pytest.mark.parametrize("with_mpi", [True, False])
def test_a_signal_to_one_rank_stops_all_after_the_same_update(tmp_path, sigterm_at, with_mpi):
    start = by_mpi if with_mpi else launched
    ended = start(2, "ranked_run.py", tmp_path, '{"updates": 500}', "term", sigterm_at, 7)
    assert ended.code == 143 and ended.lines == []
    assert max((tmp_path / "checkpoints").iterdir()).name == "update_00000007.npz"  # the signal comes before its sum
