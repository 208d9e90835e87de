"""Ranks stop after the same update, whichever of them receives a request to stop, and when."""

import json
import threading

import numpy as np
import pytest
from rank_jobs import as_threads, by_mpi, launched
from tiny_run import final_state, metrics_of, tiny_config, tiny_corpus
from trained_ranks import trained

from minitransformer.training import Outcome, StepResult, Trainer, trainer
from minitransformer.training.recorder import MetricsRecorder

pytestmark = pytest.mark.mpi

UPDATES = 9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [2, 3])
def test_all_ranks_stop_after_the_same_update_with_the_same_signal(size, seed, tmp_path, monkeypatch):
    """Each of some ranks is given a signal of its own as it begins an update of its own, before the sum."""
    rng, step, requests = np.random.default_rng((size, seed)), trainer.train_step, {}
    wishes = {
        int(rank): int(rng.integers(1, UPDATES + 1)) for rank in rng.permutation(size)[: rng.integers(1, size + 1)]
    }

    def request() -> trainer.StopRequest:
        made = requests[threading.get_ident()] = StopRequest()
        return made

    def signalled(*words, update, accumulator, **options):
        if update == wishes.get(accumulator.ranks.rank):
            requests[threading.get_ident()].signal = 10 + accumulator.ranks.rank
        return step(*words, update=update, accumulator=accumulator, **options)

    StopRequest = trainer.StopRequest
    monkeypatch.setattr(trainer, "StopRequest", request)
    monkeypatch.setattr(trainer, "train_step", signalled)

    class Group:
        def __init__(self, ranks):
            self.connect = lambda settings, on_gpu: ranks

    def work(ranks) -> Outcome:
        config = tiny_config(tmp_path, updates=UPDATES, validate_every=0, micro_batches=3, threads=1)
        return Trainer(config, tiny_corpus(), progress=False, process_group=Group(ranks)).run()

    first = min(wishes.values())
    number = max(10 + rank for rank, update in wishes.items() if update == first)
    assert as_threads(size, work) == [Outcome(first, number)] * size


def test_figures_on_a_gpu_are_read_at_the_same_updates_by_all_ranks(tmp_path):
    """Else a rank that saves, and so reads, between them would know before the others that all are to stop."""

    class OnDevice:
        def __float__(self):
            return 1.0

    def reading(reads_between: set[int]) -> list[int]:
        recorder = MetricsRecorder(tmp_path / "metrics.jsonl", False, 10, lambda update: update // 25)
        read = []
        for update in range(1, 60):
            recorder.begin_update()
            if recorder.add(update, StepResult(OnDevice(), OnDevice(), 1, 1, OnDevice(), 0.1)):
                read.append(update)
            if update in reads_between:
                recorder.read(update)
        return read

    assert reading({5, 13, 17, 33}) == reading(set()) == [10, 16, 20, 24, 30, 32, 40, 48, 49, 50]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_run_resumes_to_the_bits_of_one_that_was_not(tmp_path, rank):
    whole = trained(tmp_path / "whole", 2, deterministic_reduce=True)
    words = [tmp_path / "parts", '{"updates": 20, "deterministic_reduce": true}']
    for update in (3, 9, 20):
        ended = by_mpi(2, "ranked_run.py", *words, "term", rank, update)
        assert ended.code == 143
        assert [line for line in ended.lines if not line.startswith("train: resumed from")] == []
    np.testing.assert_array_equal(final_state(tmp_path / "parts", 20)[0], whole)


def test_a_validation_is_not_lost_where_a_signal_came_before_it(tmp_path):
    changes = {"updates": 20, "save_every": 5}
    trained(tmp_path / "whole", 2, "launch", **changes)
    assert launched(2, "ranked_run.py", tmp_path / "stopped", json.dumps(changes), "term", 0, 10).code == 143
    trained(tmp_path / "stopped", 2, "launch", **changes)
    assert metrics_of(tmp_path / "stopped") == metrics_of(tmp_path / "whole")
