"""Ranks stop after the same update, whichever of them receives a request to stop, and when."""

import threading

import numpy as np
import pytest
from rank_jobs import as_threads
from tiny_run import tiny_config, tiny_corpus

from minitransformer.training import Outcome, Trainer, trainer

pytestmark = pytest.mark.mpi

UPDATES = 9


class Group:
    def __init__(self, ranks):
        self.connect = lambda settings, on_gpu: ranks


def trainer_of(directory, ranks, **callbacks) -> Trainer:
    config = tiny_config(directory, updates=UPDATES, validate_every=0, micro_batches=3, threads=1)
    return Trainer(config, tiny_corpus(), progress=False, process_group=Group(ranks), **callbacks)


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

    def signaled(*words, update, accumulator, **options):
        if update == wishes.get(accumulator.ranks.rank):
            requests[threading.get_ident()].signal = 10 + accumulator.ranks.rank
        return step(*words, update=update, accumulator=accumulator, **options)

    StopRequest = trainer.StopRequest
    monkeypatch.setattr(trainer, "StopRequest", request)
    monkeypatch.setattr(trainer, "train_step", signaled)

    first = min(wishes.values())
    number = max(10 + rank for rank, update in wishes.items() if update == first)
    assert as_threads(size, lambda ranks: trainer_of(tmp_path, ranks).run()) == [Outcome(first, number)] * size


def test_a_callback_of_one_rank_stops_all_of_them_one_update_later_and_they_may_run_again(tmp_path):
    def stop(trainer, result):
        trainer.should_stop = trainer.update == 3 and not trainer.is_rank_0

    def run_twice(ranks):
        run = trainer_of(tmp_path, ranks, on_update=stop)
        return run.run(), run.run()

    assert as_threads(2, run_twice) == [(Outcome(4), Outcome(UPDATES))] * 2
