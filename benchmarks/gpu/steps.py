"""Updates on a GPU: ours and PyTorch's in turn, where their time goes, and how much memory they take."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu.memory import peak_of
from benchmarks.gpu.stage_process import one_by_one, reason
from examples.report import spread
from minitransformer.backend import device_wait
from minitransformer.config import TrainingConfig
from minitransformer.kernels.cupy.launch import Counter
from minitransformer.kernels.profile import Profile
from minitransformer.models import Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.planning.flops import batch_flops
from minitransformer.text import Batch
from minitransformer.training import GradientAccumulator, evaluate_loss, train_step

WARM_UP = 3


@dataclass(frozen=True)
class Device:
    """Where it is measured: our array library and PyTorch's name of the same device."""

    xp: ModuleType
    torch_device: str

    def wait(self) -> None:
        device_wait(self.xp)()
        if self.torch_device == "cuda" and find_spec("torch"):
            import torch

            torch.cuda.synchronize()


def our_update(
    size: Size, precision: str, device: Device, batches: Sequence[Batch] = ()
) -> tuple[Transformer, Callable[[], object]]:
    """The model and a function that makes one update, whose result stays on the device.

    batches: its micro-batches (default: one, of random words)
    """
    model = Transformer(size.model, seed=1, xp=device.xp, precision=precision)
    adam, batches = Adam(model.parameters), batches or [random_batch(size)]
    accumulator = GradientAccumulator(model.parameters, scale=LossScale.for_precision(precision))
    updates = iter(range(1, 1 << 30))

    def update() -> object:
        number = next(updates)
        return train_step(model, adam, batches, update=number, config=TrainingConfig(), accumulator=accumulator)

    return model, update


def in_turn(runners: dict[str, Callable[[], object]], size: Size, device: Device) -> dict[str, dict[str, list[float]]]:
    """Milliseconds an update, of the device and until Python had launched it; the runners take turns in each round."""
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
    """Ours and PyTorch's update in each precision. peers: of ``eager`` and ``compiled``"""
    results: dict = {
        "flops": batch_flops(size.model, size.sentences, size.tokens, size.tokens),
        "tokens": size.sentences * size.tokens,
    }
    return one_by_one(precisions, lambda precision: _step(size, precision, device, peers, results), results)


def _step(size: Size, precision: str, device: Device, peers: Sequence[str], work: dict) -> dict:
    """One precision.   work: ``flops`` and ``tokens`` of an update"""
    _free(device)
    entry: dict = {}
    model, update = our_update(size, precision, device)
    runners = {"ours": update} | _peers(model, size, precision, device, peers, entry)
    for name, times in in_turn(runners, size, device).items():
        entry[name] = {f"{kind} ms": spread(values) for kind, values in times.items()}
        seconds = entry[name]["device ms"]["median"] / 1000
        entry[name] |= {"TFLOP/s": work["flops"] / seconds / 1e12, "target tokens/s": work["tokens"] / seconds}
    entry["launches"] = _launches(update)
    if device.xp is not np:
        lasting = 4 * model.parameters.data.nbytes  # parameters, gradients, both of Adam's vectors
        entry["peak bytes"] = peak_of(update, device.xp) + lasting
    return entry


def _peers(
    model: Transformer, size: Size, precision: str, device: Device, peers: Sequence[str], entry: dict
) -> dict[str, Callable[[], object]]:
    """PyTorch's updates; ``entry`` gets the reason of what fails."""
    found: dict[str, Callable[[], object]] = {}
    for peer in peers if precision != "float16" else ():
        try:
            from benchmarks.gpu.torch_update import torch_update

            compiled = peer == "compiled"
            update = torch_update(model, random_batch(size), precision, device.torch_device, compiled)
            update()
            found[peer] = update
        except Exception as error:
            entry[f"{peer} failed"] = reason(error)
    return found


def same_loss(size: Size, device: Device) -> dict:
    """The loss without dropout, ours and PyTorch's, with one set of weights."""
    from benchmarks.gpu.torch_update import torch_loss

    model, batch = Transformer(size.model, seed=1, xp=device.xp), random_batch(size)
    ours, theirs = evaluate_loss(model, [batch])[0], torch_loss(model, batch, device.torch_device)
    return {"ours": ours, "PyTorch": theirs, "relative difference": abs(ours - theirs) / abs(theirs)}


def ops(size: Size, precision: str, device: Device, updates: int = 3) -> dict:
    """Milliseconds of each rule in an update. Waiting at each rule makes the sum longer than an update really is."""
    _, update = our_update(size, precision, device)
    update()
    profile = Profile(device.wait)
    for _ in range(updates):
        with profile.time_update():
            update()
    return {"milliseconds per update": profile.per_update(), "kernels": _kernels(update, device)}


def _launches(update: Callable[[], object]) -> int:
    before = Counter.launches
    update()
    return Counter.launches - before


def _kernels(update: Callable[[], object], device: Device) -> list | str:
    """Name, calls and milliseconds of each kernel of an update, longest first, as PyTorch's profiler sees them."""
    try:
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as torch_profile

        with torch_profile(activities=[ProfilerActivity.CUDA]) as seen:
            update()
            device.wait()
        rows = [(each.key, each.count, each.self_device_time_total / 1000) for each in seen.key_averages()]
        return sorted(rows, key=lambda row: -row[2])[:60]
    except Exception as error:
        return reason(error)


def once(work: Callable[[], object], device: Device) -> float:
    """Seconds until the device has done it."""
    device.wait()
    began = time.perf_counter()
    work()
    device.wait()
    return time.perf_counter() - began


def _free(device: Device) -> None:
    if device.xp is not np:
        device.xp.get_default_memory_pool().free_all_blocks()
    if device.torch_device == "cuda" and find_spec("torch"):
        import torch

        torch.cuda.empty_cache()
