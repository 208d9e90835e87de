"""Updates on a GPU: ours, by fast or plain kernels, and PyTorch's in turn, and how much memory they take."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu.memory import peak_of
from benchmarks.gpu.stage_process import one_by_one, reason
from examples.report import spread
from minitransformer.backend import device_wait
from minitransformer.config import TrainingConfig
from minitransformer.kernels.cupy.launch import Counter
from minitransformer.models import Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.planning.flops import batch_flops
from minitransformer.text import Batch
from minitransformer.training import GradientAccumulator, train_step

WARM_UP, REPEATS = 3, 20


@dataclass(frozen=True)
class Device:
    """Where to measure: our array library, and PyTorch's name for the same device."""

    xp: ModuleType | None
    torch_device: str

    def wait(self) -> None:
        """Wait until all work of this process is done, PyTorch's too, which shares the device's context."""
        device_wait(self.xp)()


def our_update(
    size: Size, precision: str, device: Device, batches: Sequence[Batch] = (), kernel_mode: str = "fast"
) -> tuple[Transformer, Callable[[], object]]:
    """The model and a function that makes one update.

    batches: its micro-batches (default: one, of random words)
    """
    model = Transformer(size.model, seed=1, xp=device.xp, precision=precision, kernel_mode=kernel_mode)
    adam, batches = Adam(model.parameters), batches or [random_batch(size)]
    accumulator = GradientAccumulator(model.parameters, scale=LossScale.for_precision(precision))
    updates = iter(range(1, 1 << 30))

    def update() -> object:
        number = next(updates)
        return train_step(model, adam, batches, update=number, config=TrainingConfig(), accumulator=accumulator)

    return model, update


def in_turn(runners: dict[str, Callable[[], object]], size: Size, device: Device) -> dict[str, dict[str, list[float]]]:
    """Milliseconds per update: of the device, and of the host until the call returns. Ours returns after it has read
    the loss and the norm, so its two figures are nearly the same. The runners take turns in each round."""
    found: dict[str, dict[str, list[float]]] = {name: {"device": [], "host": []} for name in runners}
    for run in runners.values():
        for _ in range(WARM_UP):
            run()
    for _ in range(size.rounds):
        for name, run in runners.items():
            device.wait()
            began = time.perf_counter()
            for _ in range(size.updates):
                run()
            launched = time.perf_counter()
            device.wait()
            ended = time.perf_counter()
            found[name]["device"].append(1000 * (ended - began) / size.updates)
            found[name]["host"].append(1000 * (launched - began) / size.updates)
    return found


def steps(size: Size, precisions: Sequence[str], device: Device, peers: Sequence[str]) -> dict:
    """Our update in each precision beside others. peers: of ``plain`` (in float32), ``eager`` and ``compiled``"""
    results: dict = {
        "flops": batch_flops(size.model, size.sentences, size.tokens, size.tokens),
        "tokens": size.sentences * size.tokens,
    }
    one_by_one(precisions, lambda precision: _step(size, precision, device, peers, results), results, device.wait)
    times = {
        f"{precision} {name}": each["device ms"]["median"]
        for precision in precisions
        for name, each in results.get(precision, {}).items()
        if isinstance(each, dict) and "device ms" in each
    }
    return results | {"says": ", ".join(f"{name} {ms:.2f} ms" for name, ms in times.items())}


def _step(size: Size, precision: str, device: Device, peers: Sequence[str], work: dict) -> dict:
    """One precision.   work: ``flops`` and ``tokens`` of an update"""
    _free(device)
    entry: dict = {}
    model, update = our_update(size, precision, device)
    runners = {"ours": update} | _others(model, size, precision, device, peers, entry)
    for name, times in in_turn(runners, size, device).items():
        entry[name] = {f"{kind} ms": spread(values) for kind, values in times.items()}
        seconds = entry[name]["device ms"]["median"] / 1000
        entry[name] |= {"TFLOP/s": work["flops"] / seconds / 1e12, "target tokens/s": work["tokens"] / seconds}
    entry["launches"] = _launches(update)
    if device.xp is not np:
        lasting = 4 * model.parameters.data.nbytes  # parameters, gradients, both of Adam's vectors
        entry["peak bytes"] = peak_of(update, device.xp) + lasting
    return entry


def _others(
    model: Transformer, size: Size, precision: str, device: Device, peers: Sequence[str], entry: dict
) -> dict[str, Callable[[], object]]:
    """Updates by plain kernels and by PyTorch; ``entry`` gets the reason where one fails."""
    found: dict[str, Callable[[], object]] = {}
    for peer in peers if precision != "float16" else ():
        try:
            if peer == "plain":
                _, update = our_update(size, precision, device, kernel_mode="simple")
            else:
                from benchmarks.gpu.torch_update import torch_update

                compiled = peer == "compiled"
                update = torch_update(model, random_batch(size), precision, device.torch_device, compiled)
            update()
            found[peer] = update
        except Exception as error:
            entry[peer] = {"failed": reason(error)}
    return found


def first_updates(size: Size, precisions: Sequence[str], device: Device) -> dict:
    """Compiles every kernel that an update needs, and makes one: seconds, and whether the loss is finite."""

    def compile_all(precision: str) -> dict:
        began = time.perf_counter()
        _, update = our_update(size, precision, device)
        loss = float(update().loss)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "loss": loss} | ({} if np.isfinite(loss) else {"failed": f"the loss is {loss}"})

    results = one_by_one(precisions, compile_all, {}, device.wait)
    made = [f"{name} {each['seconds']:.0f} s" for name, each in results.items() if "seconds" in each]
    return results | {"says": ", ".join(made)}


def copy_rate(device: Device, n: int) -> float:
    """TB/s that a copy of 32 n^2 bytes reads and writes."""
    source = device.xp.zeros(n * n * 8, np.float32)
    target = device.xp.empty_like(source)
    return 2 * source.nbytes / 1e12 / mean_seconds(lambda: target.__setitem__(..., source), device)


def mean_seconds(work: Callable[[], object], device: Device) -> float:
    """Seconds of one call: the mean of `REPEATS`, after some to warm up."""
    for _ in range(WARM_UP):
        work()
    return once(lambda: [work() for _ in range(REPEATS)], device) / REPEATS


def _launches(update: Callable[[], object]) -> int:
    before = Counter.launches
    update()
    return Counter.launches - before


def once(work: Callable[[], object], device: Device) -> float:
    """Seconds until the device has done the work."""
    device.wait()
    began = time.perf_counter()
    work()
    device.wait()
    return time.perf_counter() - began


def _free(device: Device) -> None:
    if device.xp is not np:
        device.xp.get_default_memory_pool().free_all_blocks()
    if device.torch_device == "cuda" and (torch := sys.modules.get("torch")):
        torch.cuda.empty_cache()
