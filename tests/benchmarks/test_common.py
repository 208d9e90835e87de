"""What all benchmarks share: turns are counted, batches are as large as they say, a floor has all its products."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.common import matrix_products, race, real_text
from benchmarks.common.search_cases import Case, random_model, random_sources, search
from benchmarks.common.work import Size, halves, random_batch
from examples.report import spread, with_extremes
from minitransformer.config import PAD, ModelConfig
from minitransformer.text import BatchStream

TINY = ModelConfig(vocab_size=37, n_layers=1, d_model=8, d_ff=8, n_heads=2)


def test_contestants_take_turns_and_rounds_that_warm_up_are_not_counted(monkeypatch):
    clock, order = [0.0], []

    def runner(name, *seconds):
        left = iter(seconds)

        def run():
            order.append(name)
            clock[0] += next(left)

        return run

    monkeypatch.setattr(race, "time", SimpleNamespace(sleep=lambda _: None, perf_counter=lambda: clock[0]))
    found = race.race({"a": runner("a", 9, 1, 2), "b": runner("b", 8, 4, 3)}, rounds=2, warm_up=1)
    assert order == ["a", "b"] * 3 and found == {"a": [1, 2], "b": [4, 3]}


def test_the_share_of_padding_is_that_of_the_batches_of_an_epoch(rng):
    src, tgt = ([[4] * n for n in rng.integers(1, 20, 200).tolist()] for _ in range(2))
    stream = BatchStream(src, tgt, src_tokens=120, tgt_tokens=120, seed=1)
    batches = [stream.batch(number) for number in range(stream.batches_per_epoch)]
    positions = np.concatenate([ids.ravel() for batch in batches for ids in (batch.src, batch.tgt_out)])
    assert real_text.padding_share(stream) == pytest.approx(np.mean(positions == PAD)) and PAD in positions


def test_text_is_repeated_line_by_line_up_to_its_size_in_bytes():
    assert real_text.text_size(["ä", "bc"]) == len("ä\nbc\n".encode())
    assert real_text.repeated_to(["ä", "bc"], 7) == ["ä", "bc", "ä"]
    assert real_text.repeated_to(["ä", "bc"], 6) == ["ä", "bc"]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_as_many_tokens_are_decoded_as_a_case_says(rng, beam_size):
    case, src = Case(sentences=3, new_tokens=30, beam_size=beam_size), random_sources(rng, 37, 3)
    assert [len(each.ids) for each in search(random_model(TINY), src, case)] == [30] * 3


def test_a_random_batch_is_full_and_its_halves_have_each_sentence_once():
    batch = random_batch(Size("tiny", TINY, sentences=6, tokens=5, rounds=1))
    sides, parts = (batch.src, batch.tgt_in, batch.tgt_out), halves(batch)
    assert [ids.shape for ids in sides] == [(6, 5)] * 3 and all((ids != PAD).all() for ids in sides)
    for name in ("src", "tgt_in", "tgt_out"):
        found = [getattr(part, name) for part in parts]
        np.testing.assert_array_equal(np.concatenate(found), getattr(batch, name))
        assert [len(each) for each in found] == [3, 3]


def test_a_floor_runs_each_product_once_in_its_layout(rng, monkeypatch):
    def work(x):
        return x @ (x.swapaxes(-1, -2) @ x)

    def form(array):
        return array.shape, array.strides, array.dtype

    run = []
    x = rng.standard_normal((2, 5, 3), dtype=np.float32)
    inner = x.swapaxes(-1, -2) @ x
    plain = [tuple(map(form, pair)) for pair in ((x.swapaxes(-1, -2), x), (x, inner))]
    products = matrix_products.products_of(work, x)
    monkeypatch.setattr(matrix_products, "matmul", lambda a, b, out: run.append((form(a), form(b), out.shape)))
    matrix_products.replay(products)()
    assert [pair for *pair, _ in run] == [list(pair) for pair in plain]
    assert [shape for *_, shape in run] == [(2, 3, 3), (2, 5, 3)]


def test_a_spread_is_the_median_and_the_extremes():
    assert spread([9.0, 1.0, 2.0]) == {"median": 2.0, "lowest": 1.0, "highest": 9.0}
    assert with_extremes(spread([9000.0, 1.0, 2.0]), ",.1f") == "2.0 (1.0 to 9,000.0)"
