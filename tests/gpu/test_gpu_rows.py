"""The forecast beside a GPU: every kernel and product that was recorded without one is made there, and is timed."""

from benchmarks.common.work import Size
from benchmarks.gpu import forecast
from benchmarks.gpu.steps import Device
from minitransformer.config import ModelConfig

MODEL = ModelConfig(vocab_size=500, n_layers=2, d_model=64, d_ff=128, n_heads=4)


def test_every_recorded_kernel_and_product_is_timed_on_the_gpu(device):
    work = forecast.Workload(Size("small", MODEL, 40, 12, 2), 1, micro_batches=2)
    found = forecast.forecast_of(forecast.calls_of(work))
    whole = forecast.measure(found, work, Device(device.xp, "cpu"))
    assert whole > 0
    for row in found.rows:
        assert row.kind == "CuPy" or row.measured > 0, row.name
