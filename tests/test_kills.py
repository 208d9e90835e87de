"""A training that is killed, or runs out of disk, at random moments ends as one that was left alone: a few kills.

Many are made by `python -m tests.reliability.kills`.
"""

import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_run import checkpoint_of, tiny_trainer

from minitransformer.checkpoints import Checkpoint, load_checkpoint

pytest.importorskip("fcntl", reason="the system is not Unix")
from tests.reliability.killed_job import BrokenPromise, Start  # noqa: E402
from tests.reliability.same_run import UninterruptedRun  # noqa: E402
from tests.reliability.struck_run import Configuration, StruckRun  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes of a job are found in Linux's /proc")


@pytest.mark.parametrize(
    ("changes", "blows"),
    [
        ({"blows": ("SIGKILL", "limit")}, 3),
        ({"binarised": True, "starts": [Start(threads=2)]}, 2),
        pytest.param({"starts": [Start("launch", 2)]}, 1, marks=pytest.mark.mpi),
    ],
    ids=["text", "binarised, threads", "ranks"],
)
def test_a_training_struck_at_random_moments_equals_one_left_alone(tmp_path, rng, changes, blows):
    run = StruckRun(Configuration(**changes), tmp_path / "training", int(rng.integers(1 << 30)), updates=30)
    run.go(blows)
    assert 0 < len(run.blows) <= blows


UPDATES = 8


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("left_alone") / "run"
    tiny_trainer(folder, updates=UPDATES, save_every=1, keep_checkpoints=0, validate_every=UPDATES).run()
    return folder


def notes(checksum: str = "aa") -> SimpleNamespace:
    """Those of a job whose updates have one micro-batch each."""
    return SimpleNamespace(
        events=lambda: [["0.0", "0", "batch", str(n), str(n - 1), checksum] for n in range(1, UPDATES + 1)]
    )


def change_one_bit(checkpoint: Checkpoint, name: str) -> None:
    vector = getattr(checkpoint, name)
    vector.view(np.uint8)[len(vector)] ^= 1
    checkpoint.save(checkpoint.path)


def drop_first_line(folder):
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[1:]))


def cut(path):
    path.write_bytes(path.read_bytes()[:2000])


FAULTS = {
    "a bit of a parameter": lambda folder: change_one_bit(load_checkpoint(checkpoint_of(folder, 6)), "parameters"),
    "a bit of Adam's mean": lambda folder: change_one_bit(load_checkpoint(checkpoint_of(folder, 6)), "adam_m"),
    "a bit of Adam's square": lambda folder: change_one_bit(load_checkpoint(checkpoint_of(folder, 6)), "adam_v"),
    "a checkpoint cut short": lambda folder: cut(checkpoint_of(folder, UPDATES)),
    "a checkpoint that is lost": lambda folder: checkpoint_of(folder, UPDATES).unlink(),
    "a line of metrics lost": drop_first_line,
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_comparison_finds_every_fault_planted_in_a_run(tmp_path, left_alone, fault):
    folder = shutil.copytree(left_alone, tmp_path / "run")
    reference = UninterruptedRun(left_alone, notes(), tolerance=0.0)
    if fault is None:
        assert reference.check_folder(folder, notes(), UPDATES) == UPDATES
        return
    FAULTS[fault](folder)
    with pytest.raises(BrokenPromise):
        reference.check_folder(folder, notes(), UPDATES)


def test_the_comparison_finds_another_order_of_batches(left_alone):
    reference = UninterruptedRun(left_alone, notes(), tolerance=0.0)
    with pytest.raises(BrokenPromise, match="micro-batch .* must be that of the uninterrupted run"):
        reference.check_folder(left_alone, notes("bb"), UPDATES)
