"""Threads that share an update: the same result as one thread, every error raised, BLAS left as it was."""

import multiprocessing
import threading
import time

import numpy as np
import pytest
from small_models import losses, random_batch, small_model, train
from systems import needs
from tiny_run import tiny_trainer

from minitransformer import workers
from minitransformer.autograd import Tensor
from minitransformer.models import Transformer
from minitransformer.workers import Workers, for_blocks


def trained(n_workers: int, updates: int = 20) -> tuple[np.ndarray, list[float]]:
    """Parameters and losses after some updates of four micro-batches of different sizes, dropout and clipping on."""
    rng = np.random.default_rng(5)
    model, lengths = small_model(rng, p_drop=0.2, p_drop_attention=0.1), [(), ((3,), (2,)), ((9, 1), (4, 8)), ()]
    settings = dict(warmup_steps=20, clip_norm=0.5, lr_scale=0.2)
    steps = train(model, [random_batch(rng, *each) for each in lengths], updates, Workers(n_workers), **settings)
    return model.parameters.data, [*losses(steps), *(step.gradient_norm for step in steps)]


@pytest.mark.parametrize("n_workers", [2, 3])
def test_any_number_of_workers_trains_alike_and_the_same_number_gives_the_same_bits(n_workers, relative_error):
    (alone, curve_alone), (together, curve), (again, curve_again) = map(trained, (1, n_workers, n_workers))
    assert relative_error(together, alone) < 1e-9
    assert curve == pytest.approx(curve_alone, rel=1e-9)
    assert curve[0] != curve[-3]
    np.testing.assert_array_equal(together, again)
    assert curve == curve_again


def test_each_worker_has_a_number_and_a_thread_of_its_own():
    together = threading.Barrier(3, timeout=20)

    def work(number):
        together.wait()  # passes only if all three run at the same time
        return number, threading.get_ident()

    results = Workers(3).map(work)
    assert [number for number, _ in results] == [0, 1, 2]
    assert len({thread for _, thread in results}) == 3
    assert results[0][1] == threading.get_ident()


@pytest.mark.parametrize("faulty", [0, 1])
def test_an_error_is_raised_after_all_workers_have_ended(faulty):
    ended = []

    def work(number):
        if number == faulty:
            raise ValueError(f"worker {number}")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match=f"worker {faulty}"):
        Workers(2).map(work)
    assert ended == [1 - faulty]


@pytest.mark.parametrize(("threads", "size", "each"), [(2, 2, 1), (8, 2, 4), (2, 3, 1), (8, 1, 8)])
def test_workers_share_the_threads_of_large_work(threads, size, each, monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: threads)
    assert Workers(size).map(lambda number: workers.thread_count()) == [each] * size
    assert workers.thread_count() == threads


def test_limits_hold_within_each_other_and_end_with_their_block(monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: 8)
    with workers.limit_threads(4):
        with workers.limit_threads(6):
            assert workers.thread_count() == 4
        with workers.limit_threads(0):
            assert workers.thread_count() == 4
        with workers.limit_threads(1):
            assert workers.thread_count() == 1
        assert workers.thread_count() == 4
    assert workers.thread_count() == 8


@pytest.mark.parametrize(
    ("threads", "shares", "wanted", "size"),
    [(2, 2, 0, 2), (2, 1, 0, 1), (1, 4, 0, 1), (8, 2, 0, 2), (8, 2, 2, 2), (2, 2, 9, 2), (2, 4, 1, 1)],
)
def test_workers_are_as_many_as_threads_and_shares_allow(threads, shares, wanted, size, monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: threads)
    assert Workers.for_shares(shares, wanted).size == size


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_every_element_of_a_vector_is_in_one_of_its_blocks(n_threads, monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: n_threads)
    monkeypatch.setattr(workers, "BLOCK_ELEMENTS", 4)
    monkeypatch.setattr(workers, "LARGE", 5)
    for length in (1, 4, 5, 23, 24):
        count = np.zeros(length, int)

        def add(block: slice, count: np.ndarray = count) -> None:
            assert 0 < block.stop - block.start <= 4
            count[block] += 1

        for_blocks(add, length)
        assert (count == 1).all()


def test_a_leaf_that_is_not_a_parameter_keeps_its_own_gradient(rng):
    model, mine = small_model(rng), Tensor(rng.standard_normal(3), requires_grad=True)
    (mine * mine).sum().backward(accumulate=model.parameters.gradient_buffers(2)[1].accumulate)
    np.testing.assert_allclose(mine.grad, 2 * mine.data)


def test_gradients_sent_elsewhere_leave_the_models_own_unchanged(rng):
    model, batch = small_model(rng), random_batch(rng)
    own, other = model.parameters.gradient_buffers(2)
    loss, _ = model.loss(batch)
    loss.backward(accumulate=other.accumulate)
    assert not own.vector.any() and other.vector.any()
    model.loss(batch)[0].backward()
    np.testing.assert_array_equal(own.vector, other.vector)
    np.testing.assert_array_equal(own.vector, model.parameters.grad)


@pytest.mark.parametrize(("length", "n_threads"), [(10, 3), (2, 3), (0, 2), (7, 1)])
def test_large_work_is_split_into_consecutive_parts(length, n_threads, monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: n_threads)
    parts, threads = {}, set()

    def work(part):
        parts[part.start, part.stop] = list(range(length))[part]
        threads.add(threading.current_thread())
        time.sleep(0.01)

    workers.parallel_for(work, length, True)
    assert [number for _, numbers in sorted(parts.items()) for number in numbers] == list(range(length))
    assert len(threads) == max(1, min(length, n_threads))


def test_small_work_and_work_within_a_worker_stay_in_their_thread(monkeypatch):
    threads = []

    def work(part):
        assert part == slice(0, 9)
        threads.append(threading.current_thread())

    with monkeypatch.context() as patched:
        patched.setattr(workers, "product_threads", lambda: 2)
        workers.parallel_for(work, 9, False)
        Workers(2).map(lambda _: workers.parallel_for(work, 9, True))
    assert len(set(threads[1:])) == 2
    assert threads[0] is threading.current_thread()


@needs("fork")
def test_a_forked_process_makes_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: 2)
    workers.parallel_for(lambda part: None, 2, True)
    process = multiprocessing.get_context("fork").Process(
        target=lambda: workers.parallel_for(lambda part: None, 2, True)
    )
    process.start()
    process.join(30)
    ended_with = process.exitcode  # None: it hangs
    process.kill()
    assert ended_with == 0


@pytest.mark.parametrize(
    ("given", "micro_batches", "each"), [(0, 1, 4), (0, 2, 2), (1, 1, 1), (1, 2, 1), (2, 1, 2), (3, 2, 1)]
)
def test_training_threads_limit_micro_batches_and_products_alike(given, micro_batches, each, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "product_threads", lambda: 4)
    seen, loss = set(), Transformer.loss
    monkeypatch.setattr(Transformer, "loss", lambda *args: seen.add(workers.thread_count()) or loss(*args))
    tiny_trainer(tmp_path, updates=2, threads=given, micro_batches=micro_batches, validate_every=0).run()
    assert seen == {each}
