"""The cost model of many GPUs counts what it claims, and its fit finds what was planted."""

import numpy as np
import pytest

from benchmarks.scaling import __main__ as scaling
from benchmarks.scaling.cost_model import (
    ASSUMED,
    NETWORKS,
    all_reduce_seconds,
    fit,
    ring_seconds,
    speedup,
    update_flops,
)
from minitransformer.config import ModelConfig
from minitransformer.figures import png_bytes
from minitransformer.planning import batch_flops

BASE = ModelConfig.base()


def test_flops_of_an_update_are_those_of_its_sentences():
    assert update_flops(BASE, 25_000) == pytest.approx(9.5e12, rel=0.02)
    assert update_flops(BASE, 100) == 4 * batch_flops(BASE, 1, 25, 25)


def simulated_ring(n_bytes: float, size: int, bandwidth: float, latency: float) -> float:
    """A simulated ring: in each of 2 (n - 1) rounds every rank passes one n-th of the bytes on."""
    added = np.eye(size, dtype=int)[:, :, None].repeat(size, axis=2)  # (rank, summand, chunk): whose parts it holds
    rounds = 0
    while (added != 1).any():
        before = added.copy()
        for rank in range(size):
            chunk = (rank - 1 - rounds) % size
            own = before[rank, :, chunk] if rounds < size - 1 else 0  # first to be added, then to be replaced
            added[rank, :, chunk] = own + before[rank - 1, :, chunk]
        rounds += 1
    return rounds * (latency + n_bytes / size / bandwidth)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_ring_takes_as_long_as_its_simulation(size):
    assert ring_seconds(1e6, size, 1e9, 1e-5) == pytest.approx(simulated_ring(1e6, size, 1e9, 1e-5))


def test_the_fit_finds_latency_and_bandwidth_again():
    n_bytes = [4.0**power for power in range(5, 14)]
    latency, bandwidth = fit(n_bytes, [ring_seconds(each, 4, 3e9, 2e-5) for each in n_bytes], 4)
    assert (latency, bandwidth) == (pytest.approx(2e-5), pytest.approx(3e9))


@pytest.mark.parametrize("weak", [True, False])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_speedups_lie_between_nothing_and_linear_and_overlap_never_harms(network, weak):
    for gpus in scaling.GPUS:
        with_overlap = speedup(BASE, 25_000, gpus, ASSUMED, network, weak)
        without = speedup(BASE, 25_000, gpus, ASSUMED, network, weak, overlap=False)
        assert 0 < without <= with_overlap <= gpus * (1 + 1e-12)
        assert gpus > 1 or without == pytest.approx(1.0)


def test_a_slower_network_slows_sums_over_machines_and_none_within_one():
    slow, fast = NETWORKS[2], NETWORKS[1]
    assert all_reduce_seconds(1e9, 16, ASSUMED, slow) > all_reduce_seconds(1e9, 16, ASSUMED, fast)
    assert all_reduce_seconds(1e9, 8, ASSUMED, slow) == all_reduce_seconds(1e9, 8, ASSUMED, fast)


def test_predictions_and_picture_hold_all_models_and_networks():
    rows = scaling.predictions()
    assert len(rows) == 2 * 2 * 3 * 2
    rates = {"launch": 1e9, "mpiexec": 2e9}
    sums = [{"bytes": 10.0**n} | {name: 1e-5 + 10.0**n / rate for name, rate in rates.items()} for n in range(3, 8)]
    assert png_bytes(scaling.draw(sums, (1e-5, 1e9), rows)).startswith(b"\x89PNG")
    text = "\n".join(scaling.predicted_text(rows))
    for words in ("Predicted, not measured", "264 TFLOP/s", "450 GB/s", "6.8 of 8", "63,045,632 parameters"):
        assert words in text


def test_without_mpi_the_measurements_are_skipped_with_a_reason(monkeypatch, capsys):
    monkeypatch.setattr(scaling.importlib.util, "find_spec", lambda name: None)
    assert scaling.main(["--quick"]) == 0
    assert "scaling: measurements skipped, mpi4py or an MPI is missing: pip install" in capsys.readouterr().out
