"""Where the time of an update goes: each kernel's calls, milliseconds, bytes and share of the bandwidth.

Times are those between two events of the device around each launch, within a real update; work that was queued before
keeps the device busy, so that it waits less for Python. What CuPy itself starts, and how long the device is idle, is
measured with PyTorch's profiler, which watches the whole process.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.work import Size
from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device, copy_rate, our_update
from minitransformer.kernels.cupy import gemm, launch

AHEAD = 40  # products of n x n that are queued first: 50 ms or more
BOTH_WAYS = {
    "add_bias": (0,),
    "bias_relu_dropout": (0,),
    "relu_dropout_backward": (0,),
    "cross_entropy": (0, 0),
    "adam": (0, 1, 2),
}
"""Arrays that a kernel reads and writes, by their place among its arguments: they count once more for each time."""
PRODUCTS, OTHERS = "products (cuBLAS)", "CuPy's own, and waits"
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""What the profiler calls the work of a device."""


class Call(NamedTuple):
    """One launch: two times of the device, bytes that it must move, operations of a product."""

    name: str
    began: Any
    ended: Any
    moved: int
    flops: int = 0


def kernels(size: Size, device: Device, n: int) -> dict:
    """The rows of one update in bfloat16, the longest first; what CuPy itself starts is known only as the rest."""
    _, update = our_update(size, "bfloat16", device)
    update()
    rate, calls = copy_rate(device, n), []
    factor = device.xp.ones((n, n), np.float32)
    out = device.xp.empty_like(factor)
    for _ in range(AHEAD):
        gemm.matmul(factor, factor, out=out, tf32=True)
    with recorded(calls, device):
        began = _mark(device)
        update()
        ended = _mark(device)
    device.wait()
    total = _milliseconds(began, ended)
    rows = table(calls, rate)
    rows[OTHERS] = {"ms": max(0.0, total - sum(row["ms"] for row in rows.values()))}
    rows = dict(sorted(rows.items(), key=lambda row: -row[1]["ms"]))
    says = f"{total:.2f} ms, {sum(row.get('calls', 0) for row in rows.values())} launches; a copy moves {rate:.2f} TB/s"
    found = {"says": says, "update ms": total, "copy TB/s": rate, "kernels": rows}
    if device.xp is not np and find_spec("torch"):
        one_by_one(["profiler"], lambda _: profiled(update, device), found, device.wait)
    return found


def profiled(update: Callable[[], object], device: Device, updates: int = 2) -> dict:
    """`device_work` of an update, the mean of several."""
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory() as folder:
        with profile(activities=[ProfilerActivity.CUDA]) as watched:
            for _ in range(updates):
                update()
            device.wait()
        path = Path(folder) / "trace.json"
        watched.export_chrome_trace(str(path))
        return device_work(json.loads(path.read_text(encoding="utf-8"))["traceEvents"], updates)


def device_work(events: list[dict], updates: int) -> dict:
    """Milliseconds of an update from the first work of the device to the last, those in which it was busy, and the
    calls and milliseconds of each kind of work, the longest first.

    events: of the profiler, in microseconds

    Raises:
        ValueError: none of the events is of the device.
    """
    work = sorted((each for each in events if each.get("cat") in DEVICE_WORK), key=lambda each: each["ts"])
    if not work:
        raise ValueError("the profiler must see the device's work, got none")
    rows: dict[str, dict] = {}
    busy = end = 0.0
    for each in work:
        began, ended = each["ts"], each["ts"] + each["dur"]
        busy, end = busy + max(0.0, ended - max(began, end)), max(end, ended)
        row = rows.setdefault(each["name"][:80], {"calls": 0.0, "ms": 0.0})
        row["calls"] += 1 / updates
        row["ms"] += each["dur"] / 1000 / updates
    rows = dict(sorted(rows.items(), key=lambda row: -row[1]["ms"]))
    return {"update ms": (end - work[0]["ts"]) / 1000 / updates, "busy ms": busy / 1000 / updates, "work": rows}


def table(calls: list[Call], rate: float) -> dict[str, dict]:
    """By name: calls, ms, MB, share of the ``rate`` (TB/s) of a copy and, for products, TFLOP/s."""
    rows: dict[str, dict] = {}
    for name in dict.fromkeys(call.name for call in calls):
        own = [call for call in calls if call.name == name]
        ms, moved = sum(_milliseconds(call.began, call.ended) for call in own), sum(call.moved for call in own)
        rows[name] = {"calls": len(own), "ms": ms, "MB": moved / 1e6, "of the bandwidth": moved / 1e9 / ms / rate}
        if flops := sum(call.flops for call in own):
            rows[name]["TFLOP/s"] = flops / 1e9 / ms
    return rows


@contextmanager
def recorded(calls: list[Call], device: Device) -> Iterator[None]:
    """Within the block, every kernel of ours and every product is added to ``calls``."""
    compile_kernel, cublas = launch.compile_kernel, gemm.cublas

    def watched_kernel(file: str, kernel: str, dtype: str, names: tuple) -> Callable:
        function = compile_kernel(file, kernel, dtype, names)

        def run(blocks: tuple, threads: tuple, arguments: tuple) -> None:
            began = _mark(device)
            function(blocks, threads, arguments)
            calls.append(Call(kernel, began, _mark(device), bytes_of(kernel, arguments)))

        return run

    def watched_cublas() -> tuple[Callable, Callable]:
        gemm_ex, handle_of_device = cublas()

        def run(*arguments: int) -> None:
            began = _mark(device)
            gemm_ex(*arguments)
            calls.append(Call(PRODUCTS, began, _mark(device), *work_of_product(arguments)))

        return run, handle_of_device

    launch.compile_kernel, gemm.cublas = watched_kernel, watched_cublas
    try:
        yield
    finally:
        launch.compile_kernel, gemm.cublas = compile_kernel, cublas


def bytes_of(kernel: str, arguments: tuple) -> int:
    """Bytes of all arrays; for one that is broadcast, only those in memory."""
    sizes = [_bytes_there(each) if hasattr(each, "strides") and each.ndim else 0 for each in arguments]
    return sum(sizes) + sum(sizes[place] for place in BOTH_WAYS.get(kernel, ()))


def _bytes_there(array: Any) -> int:
    reach = sum((n - 1) * abs(stride) for n, stride in zip(array.shape, array.strides, strict=True))
    return min(array.nbytes, reach + array.itemsize)


def work_of_product(arguments: tuple) -> tuple[int, int]:
    """(bytes, operations) of a call of GemmEx."""
    m, n, k = arguments[3:6]
    sizes = {number: 2 if name.endswith("16") else int(name[-2:]) // 8 for name, number in gemm.DATA_TYPES.items()}
    kinds = (arguments[8], arguments[11], arguments[15])
    elements = (m * k, k * n, m * n)
    return sum(sizes[kind] * count for kind, count in zip(kinds, elements, strict=True)), 2 * m * n * k


def _mark(device: Device) -> Any:
    """This point in the device's work."""
    if device.xp is np:
        return time.perf_counter()
    event = device.xp.cuda.Event()
    event.record()
    return event


def _milliseconds(began: Any, ended: Any) -> float:
    if isinstance(began, float):
        return 1000 * (ended - began)
    import cupy

    return cupy.cuda.get_elapsed_time(began, ended)
