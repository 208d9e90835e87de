"""A training that is interrupted at random moments equals an uninterrupted one, and the comparison finds every fault.

The long form is `python -m tests.reliability.kills`.
"""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_run import checkpoint_of, tiny_trainer

from minitransformer.checkpoints import load_checkpoint

pytest.importorskip("fcntl", reason="the system is not Unix")
from tests.reliability.interrupted_run import Configuration, InterruptedRun  # noqa: E402
from tests.reliability.jobs import GuaranteeViolation, Start  # noqa: E402
from tests.reliability.same_run import UninterruptedRun  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes of a job are found in Linux's /proc")


@pytest.mark.parametrize(
    ("changes", "interruptions"),
    [
        ({"interruptions": ("SIGKILL", "file-size-limit")}, 3),
        pytest.param(
            {"binarized": True, "starts": [Start(threads=2)], "interruptions": ("SIGKILL", "SIGTERM")},
            2,
            marks=pytest.mark.slow,
        ),
        pytest.param({"starts": [Start("launch", 2)]}, 1, marks=[pytest.mark.mpi, pytest.mark.slow]),
    ],
    ids=["text", "binarized, threads", "ranks"],
)
def test_a_training_interrupted_at_random_equals_an_uninterrupted_one(tmp_path, rng, changes, interruptions):
    run = InterruptedRun(Configuration(**changes), tmp_path / "training", int(rng.integers(1 << 30)), updates=30)
    run.run(interruptions)
    assert 0 < len(run.interruptions) <= interruptions


UPDATES = 8


@pytest.fixture(scope="module")
def uninterrupted_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    tiny_trainer(folder, updates=UPDATES, save_every=1, keep_checkpoints=0, validate_every=UPDATES).run()
    return folder


def job(checksum: str = "aa") -> SimpleNamespace:
    """A job whose updates have one micro-batch each."""
    return SimpleNamespace(
        events=lambda: [["0.0", "0", "batch", str(n), str(n - 1), checksum] for n in range(1, UPDATES + 1)]
    )


def change_one_bit(folder: Path, name: str) -> None:
    checkpoint = load_checkpoint(checkpoint_of(folder, 6))
    vector = getattr(checkpoint, name)
    vector.view(np.uint8)[len(vector)] ^= 1
    checkpoint.save(checkpoint.path)


def keep_lines(folder: Path, kept: slice) -> None:
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[kept]))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


FAULTS = {
    "a bit of a parameter": (lambda folder: change_one_bit(folder, "parameters"), "parameters in .* must be the same"),
    "a bit of Adam's mean": (lambda folder: change_one_bit(folder, "adam_m"), "adam_m in .* must be the same"),
    "a bit of Adam's square": (lambda folder: change_one_bit(folder, "adam_v"), "adam_v in .* must be the same"),
    "a truncated checkpoint": (
        lambda folder: truncate(checkpoint_of(folder, UPDATES)),
        "every checkpoint must be loadable",
    ),
    "a lost checkpoint": (
        lambda folder: checkpoint_of(folder, UPDATES).unlink(),
        f"the checkpoint of update {UPDATES} must not be lost, got {UPDATES - 1} as the newest",
    ),
    "the first line of metrics lost": (lambda folder: keep_lines(folder, slice(1, None)), "metrics must be .*, got"),
    "the last lines of metrics lost": (lambda folder: keep_lines(folder, slice(2)), "lines of metrics must be there"),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_comparison_finds_every_fault_planted_in_a_run(tmp_path, uninterrupted_run, fault):
    folder = shutil.copytree(uninterrupted_run, tmp_path / "run")
    reference = UninterruptedRun(uninterrupted_run, job(), tolerance=0.0)
    if fault is None:
        assert reference.check_folder(folder, job(), UPDATES) == UPDATES
        return
    plant, message = FAULTS[fault]
    plant(folder)
    with pytest.raises(GuaranteeViolation, match=message):
        reference.check_folder(folder, job(), UPDATES)


def test_the_comparison_finds_another_order_of_batches(uninterrupted_run):
    reference = UninterruptedRun(uninterrupted_run, job(), tolerance=0.0)
    with pytest.raises(GuaranteeViolation, match="micro-batch .* must be that of the uninterrupted run"):
        reference.check_folder(uninterrupted_run, job("bb"), UPDATES)
