"""Ranks stop after the same update, whichever of them receives a request to stop, and when."""

import json
import signal
import threading
import time

import numpy as np
import pytest
from rank_jobs import by_mpi, check_end, free_port, launched, over_tcp
from tiny_run import final_state, metrics_of, tiny_config, tiny_corpus
from trained_ranks import trained

from minitransformer.distributed import SINGLE_PROCESS, CommonStop, ProcessGroup
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.training import Trainer, trainer

pytestmark = pytest.mark.mpi

UPDATES = 60


def worked(size: int, seed: int, wishes: list[int], in_step: bool) -> list[int]:
    """The last update of each rank.

    wishes: for each rank the update after which it wants to stop; UPDATES: it does not
    in_step: each update has a sum over all ranks, else they run apart as hosts do whose sums are the device's
    """

    def work(ranks):
        rank = ranks.rank
        rng = np.random.default_rng((seed, rank))
        time.sleep(rng.random() * 0.01)
        together, update, total = CommonStop(ranks, 0), 0, np.zeros(1)
        while update < UPDATES and together.may_begin(update + 1, update >= wishes[rank]):
            time.sleep(rng.random() * rng.choice([0.0, 0.001, 0.005]))
            update += 1
            if in_step:
                total[:] = update
                ranks.all_reduce_sum(total)
                assert total[0] == size * update
        return update

    return over_tcp(size, work)


@pytest.mark.parametrize("in_step", [True, False])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_all_ranks_stop_after_the_same_update_and_soon(size, seed, in_step):
    rng = np.random.default_rng((size, seed, in_step))
    wishes = [UPDATES] * size
    for rank in rng.choice(size, rng.integers(1, size + 1), replace=False):
        wishes[rank] = int(rng.integers(0, UPDATES))
    done = worked(size, seed, wishes, in_step)
    assert len(set(done)) == 1
    if in_step:  # nobody is further than the update that the first of them has not begun
        assert min(wishes) <= done[0] <= min(wishes) + 1


@pytest.mark.parametrize(
    ("wishes", "in_step", "last"),
    [
        ([UPDATES, 0, UPDATES], True, {0, 1}),
        ([UPDATES, UPDATES - 1, UPDATES], True, {UPDATES - 1, UPDATES}),
        ([0, 0, 0], True, {0}),
        ([0, 0, 0], False, {0}),
        ([UPDATES, UPDATES, UPDATES], True, {UPDATES}),  # nobody wants to
    ],
)
def test_ranks_stop_at_the_first_and_the_last_update_as_at_others(wishes, in_step, last):
    done = set(worked(3, 1, wishes, in_step))
    assert len(done) == 1 and done <= last


def test_a_process_alone_stops_at_once():
    together = CommonStop(SINGLE_PROCESS, 4)
    assert together.may_begin(5, False)
    assert not together.may_begin(6, True)


def test_a_rank_answers_in_the_midst_of_an_update_that_waits_for_the_other():
    begun = threading.Event()

    def work(ranks):
        together, total = CommonStop(ranks, 0), np.ones(1)
        if ranks.rank == 0:
            assert begun.wait(10)  # rank 1 waits in the sum of update 1
            assert together.may_begin(1, True)  # so it must go there too
        else:
            assert together.may_begin(1, False)
            begun.set()
        ranks.all_reduce_sum(total)
        assert not together.may_begin(2, False)
        return total[0]

    assert over_tcp(2, work) == [2.0, 2.0]


class Requested:
    """A StopRequest that only rank 1, a thread of that name, is given."""

    def __init__(self):
        self.signal = signal.SIGTERM if threading.current_thread().name == "rank 1" else None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def test_every_rank_reports_the_signal_that_one_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "StopRequest", Requested)
    address, outcomes = ("127.0.0.1", free_port()), {}

    def work(rank):
        process_group = ProcessGroup(RankInfo(rank, 2, rank, address=address), print)
        config = tiny_config(tmp_path, updates=9, validate_every=0, communicator="tcp", threads=1)
        outcomes[rank] = Trainer(config, tiny_corpus(), progress=False, process_group=process_group).run()
        process_group.leave()

    threads = [threading.Thread(target=work, args=[rank], name=f"rank {rank}") for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].update in (0, 1) and outcomes[0].exit_status == 128 + signal.SIGTERM


def test_a_rank_that_dies_while_they_agree_ends_the_job(tmp_path):
    ended = launched(2, tmp_path, '{"updates": 20, "timeout": 2.5}', "die asked", 1, 6)
    check_end(tmp_path, ended, r"rank 1 \(process \d+ on .*\) ended unexpectedly: it was killed")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_run_resumes_to_the_bits_of_one_that_was_not(tmp_path, rank):
    whole = trained(tmp_path / "whole", 2, deterministic_reduce=True)
    words = [tmp_path / "parts", '{"updates": 20, "deterministic_reduce": true}']
    for update in (3, 9, 20):
        ended = by_mpi(2, "ranked_run.py", *words, "term", rank, update)
        assert ended.code == 143
        assert [line for line in ended.lines if not line.startswith("train: resumed from")] == []
    np.testing.assert_array_equal(final_state(tmp_path / "parts", 20)[0], whole)


def test_a_validation_is_not_lost_where_another_rank_has_begun_the_next_update(tmp_path):
    changes = {"updates": 20, "save_every": 5}  # rank 0 saves after update 10, and so begins update 11 after rank 1
    trained(tmp_path / "whole", 2, "launch", **changes)
    assert launched(2, tmp_path / "stopped", json.dumps(changes), "term", 0, 10).code == 143
    trained(tmp_path / "stopped", 2, "launch", **changes)
    assert metrics_of(tmp_path / "stopped") == metrics_of(tmp_path / "whole")
