"""Updates on a GPU: ours and PyTorch's in turn, where their time goes, and how much memory they take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from benchmarks.gpu_memory import peak_of
from benchmarks.work import Size, random_batch
from minitransformer.backend import device_wait
from minitransformer.config import TrainingConfig
from minitransformer.kernels.cupy.launch import Counter
from minitransformer.kernels.profile import Profile, profiled, timed
from minitransformer.models import Shape, Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.planning import plan
from minitransformer.planning.flops import batch_flops
from minitransformer.training import ParallelGradientAccumulator, evaluate_loss, train_step

WARM_UP = 3


@dataclass(frozen=True)
class RankInfo:
    """Where it is measured: our array library and PyTorch's name of the same device."""

    xp: ModuleType
    torch_device: str

    def wait(self) -> None:
        device_wait(self.xp)()
        if self.torch_device == "cuda":
            import torch

            torch.cuda.synchronize()


def our_update(size: Size, precision: str, place: RankInfo) -> tuple[Transformer, Callable[[], object]]:
    """The model and a function that makes one update, whose result stays on the device."""
    model = Transformer(size.model, seed=1, xp=place.xp, precision=precision)
    adam, batch = Adam(model.parameters), random_batch(size)
    accumulator = ParallelGradientAccumulator(model.parameters, scale=LossScale.for_precision(precision))
    updates = iter(range(1, 1 << 30))

    def update() -> object:
        return train_step(model, adam, [batch], update=next(updates), config=TrainingConfig(), accumulator=accumulator)

    return model, update


def in_turn(runners: dict[str, Callable[[], object]], size: Size, place: RankInfo) -> dict[str, dict[str, list[float]]]:
    """Milliseconds an update, of the device and until Python had launched it; the runners take turns in each round."""
    found: dict[str, dict[str, list[float]]] = {name: {"device": [], "host": []} for name in runners}
    for run in runners.values():
        for _ in range(WARM_UP):
            run()
    for _ in range(size.rounds):
        for name, run in runners.items():
            place.wait()
            began = time.perf_counter()
            for _ in range(size.updates):
                run()
            launched = time.perf_counter()
            place.wait()
            ended = time.perf_counter()
            found[name]["device"].append(1000 * (ended - began) / size.updates)
            found[name]["host"].append(1000 * (launched - began) / size.updates)
    return found


def steps(size: Size, precisions: Sequence[str], place: RankInfo, peers: Sequence[str]) -> dict:
    """Ours and PyTorch's update in each precision. peers: of ``eager`` and ``compiled``"""
    shape = Shape(size.sentences, size.tokens, size.tokens)
    results: dict = {"flops": batch_flops(size.model, size.sentences, size.tokens, size.tokens), "tokens": shape.tgt}
    for precision in precisions:
        entry = results[precision] = {}
        model, update = our_update(size, precision, place)
        runners = {"ours": update}
        for peer in peers if precision != "float16" else ():
            from benchmarks.gpu_torch import torch_update

            try:
                compiled = peer == "compiled"
                runners[peer] = torch_update(model, random_batch(size), precision, place.torch_device, compiled)
                runners[peer]()
            except Exception as error:
                entry[f"{peer} failed"] = reason(error)
                runners.pop(peer, None)
        for name, times in in_turn(runners, size, place).items():
            entry[name] = {f"{kind} ms": spread(values) for kind, values in times.items()}
            seconds = entry[name]["device ms"]["median"] / 1000
            entry[name] |= {"TFLOP/s": results["flops"] / seconds / 1e12, "target tokens/s": shape.tgt / seconds}
        entry["launches"] = _launches(update)
        if place.xp is not np:
            entry["peak bytes"] = peak_of(update, place.xp) + 16 * model.parameters.count
            entry["planned bytes"] = plan(size.model, shape, library="cupy", precision=precision).peak
        del model, update, runners
        _free(place)
    return results


def same_loss(size: Size, place: RankInfo) -> dict:
    """The loss without dropout, ours and PyTorch's, with one set of weights."""
    from benchmarks.gpu_torch import torch_loss

    model, batch = Transformer(size.model, seed=1, xp=place.xp), random_batch(size)
    ours, theirs = evaluate_loss(model, [batch])[0], torch_loss(model, batch, place.torch_device)
    return {"ours": ours, "PyTorch": theirs, "relative difference": abs(ours - theirs) / abs(theirs)}


def ops(size: Size, precision: str, place: RankInfo, updates: int = 3) -> dict:
    """Milliseconds of each rule in an update. Waiting at each rule makes the sum longer than an update really is."""
    _, update = our_update(size, precision, place)
    update()
    profile = Profile(place.wait)
    for _ in range(updates):
        with profiled(profile), timed("update"):
            update()
    return {"milliseconds per update": profile.per_update(), "kernels": _kernels(update, place)}


def _launches(update: Callable[[], object]) -> int:
    before = Counter.launches
    update()
    return Counter.launches - before


def _kernels(update: Callable[[], object], place: RankInfo) -> list | str:
    """Name, calls and milliseconds of each kernel of an update, longest first, as PyTorch's profiler sees them."""
    try:
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as torch_profile

        with torch_profile(activities=[ProfilerActivity.CUDA]) as seen:
            update()
            place.wait()
        rows = [(each.key, each.count, each.self_device_time_total / 1000) for each in seen.key_averages()]
        return sorted(rows, key=lambda row: -row[2])[:60]
    except Exception as error:
        return reason(error)


def once(work: Callable[[], object], place: RankInfo) -> float:
    """Seconds until the device has done it."""
    place.wait()
    began = time.perf_counter()
    work()
    place.wait()
    return time.perf_counter() - began


def spread(values: list[float]) -> dict[str, float]:
    """Median and extremes."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def _free(place: RankInfo) -> None:
    if place.xp is not np:
        place.xp.get_default_memory_pool().free_all_blocks()
    if place.torch_device == "cuda":
        import torch

        torch.cuda.empty_cache()


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
