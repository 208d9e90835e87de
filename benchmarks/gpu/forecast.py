"""How long an update will take on a GPU: every kernel's bytes and FLOPs at the rates of one H200, and Python's time.

    python -m benchmarks.gpu --forecast

Launches, bytes and FLOPs are those of the calls that a real update makes (`recording`). What is assumed stands here:
two rates, the share of them that each class of kernels reaches, and what a launch costs. With a GPU the rows are timed
as well, and each error of the forecast is printed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from benchmarks.common.tables import markdown_head, markdown_row
from benchmarks.common.work import Size, random_batch
from benchmarks.gpu.host_time import recorded, replayed
from benchmarks.gpu.recording import NOT_REPEATABLE, SEVERAL_TILES, Call, observed
from benchmarks.gpu.steps import Device, in_turn, once, our_update
from minitransformer.config import Config, ModelConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
BYTES_PER_SECOND, FLOPS_PER_SECOND = 4.3e12, 790e12
"""A large copy and a large bf16 product on one H200: nine tenths of its 4.8 TB/s, four fifths of its 989 TFLOP/s."""
SHORTEST, GAP = 2.0e-6, 0.9e-6
"""Seconds that the smallest kernel takes, and between two kernels of which one waits for the other."""
DRIVER = 6.5e-6
"""Seconds of the host for an operation, in CuPy and the driver: added to the time of Python, which is measured."""


class Share(NamedTuple):
    """Of the rate that bounds a class of kernels, bytes or FLOPs; and where the figure comes from."""

    value: float
    source: str


SHARES = {
    "product": Share(0.70, "estimate, 65 to 80 %: with a side of 512 tiles do not fill the last wave"),
    "stacked product": Share(0.50, "estimate: matrices of 25 x 25 fill a fifth of a 64 x 64 tile"),
    "unaligned stacked product": Share(
        0.18, "estimate, 10 to 30 %: pitches that are no multiples of 16 bytes exclude the kernels with wide loads"
    ),
    "unaligned product": Share(0.35, "estimate: as unaligned stacked product, in large tiles"),
    "CuPy": Share(0.60, "estimate, 50 to 70 %: two-byte loads, index arithmetic in 64 bits"),
    "one pass": Share(0.75, "estimate, 65 to 85 %: 16-byte loads, one group a thread, none in flight behind it"),
    "norm_forward": Share(0.65, "estimate: two block sums between reading and writing"),
    "norm_backward": Share(0.60, "compiler: half of the threads fit, by registers, each with two 16-byte loads"),
    "attention_forward": Share(0.50, "estimate: tiles of 32 hold sentences of 25; half of the warps fit"),
    "attention_backward": Share(0.45, "estimate: as forward, with a quarter more products a byte"),
    SEVERAL_TILES: Share(0.35, "estimate: as forward, and the weights are computed twice"),
    "cross_entropy": Share(0.60, "estimate: 16-byte loads, a row read twice, the second time mostly from the cache"),
    "sort": Share(0.02, "estimate: a thread for each digit goes through 512 numbers, one after another"),
    "add_tiles": Share(0.50, "estimate: rows of 1 kB in the order of their tokens, 32 one after another"),
    "sums": Share(0.60, "estimate: two-byte loads, 32 rows at a time"),
}
"""None is measured yet: what a GPU says will replace them."""
CLASSES = {"sum_rows": "sums", "sum_squares": "sums"}
CLASSES |= dict.fromkeys(("count_digits", "sum_counts", "place_numbers"), "sort")
"""The class of a kernel: here, a class of its own name, or one pass."""


@dataclass(frozen=True)
class Workload:
    """``updates`` of ``size``, in each its batch ``micro_batches`` times."""

    size: Size
    updates: int
    micro_batches: int = 1


def recipe(path: str, vocab_size: int, length: int) -> Workload:
    """A config of examples/.   length: tokens of its sentences, padding included"""
    config = Config.load(EXAMPLES / path, [f"model.vocab_size={vocab_size}"])
    sentences, training = min(config.data.src_tokens, config.data.tgt_tokens) // length, config.training
    size = Size(path, config.model, sentences, length, 3)
    return Workload(size, training.updates, training.micro_batches)


WORKLOADS = {
    "base": Workload(Size("base", ModelConfig.base(), 1000, 25, 3), 100_000),
    "big": Workload(Size("big", ModelConfig.big(), 1000, 25, 3), 300_000),
    "Multi30k": recipe("multi30k/multi30k.toml", 8000, 16),
    "base on one H200": recipe("wmt14/en-de-base-h200.toml", 37_000, 25),
    "MLPerf": recipe("wmt14/mlperf.toml", 37_000, 25),
}
"""The paper's updates of 25,000 tokens on each side as one micro-batch, and recipes as they are."""


@dataclass
class Row:
    """All calls of one kernel, or of products of one shape. Bytes, FLOPs, and milliseconds an update.

    ideal: at the two rates   device: forecast   host: Python and driver   measured: on a GPU
    """

    name: str
    kind: str
    launches: int = 0
    bytes: int = 0
    flops: int = 0
    ideal: float = 0.0
    device: float = 0.0
    host: float = 0.0
    measured: float | None = None

    def add(self, call: Call) -> None:
        ideal = max(call.bytes / BYTES_PER_SECOND, call.flops / FLOPS_PER_SECOND)
        self.launches += 1
        self.bytes += call.bytes
        self.flops += call.flops
        self.ideal += 1000 * ideal
        self.device += 1000 * (max(SHORTEST, ideal / SHARES[self.kind].value) + GAP)
        self.host += 1000 * (call.host + DRIVER)


class Forecast(NamedTuple):
    """The rows of an update, longest first. It takes as long as the device or the host needs, whichever is longer.

    replayed: milliseconds of the host where forward and backward are launched as CUDA graphs
    """

    rows: list[Row]
    replayed: float = 0.0

    def sum(self, what: str) -> float:
        return sum(getattr(row, what) for row in self.rows)


def class_of(call: Call) -> str:
    """The key of SHARES that stands for the call."""
    if call.kind != "kernel":
        return call.kind
    name = CLASSES.get(call.name, call.name)
    return name if name in SHARES else "one pass"


def forecast_of(calls: Iterable[Call]) -> Forecast:
    rows: dict[tuple[str, str], Row] = {}
    for call in calls:
        rows.setdefault((call.name, call.kind), Row(call.name, class_of(call))).add(call)
    return Forecast(sorted(rows.values(), key=lambda row: -row.device))


def calls_of(work: Workload, precision: str = "bfloat16") -> list[Call]:
    """The device operations of an update, recorded without a GPU."""
    return recorded(partial(build, work, precision))


def replayed_host(work: Workload, precision: str = "bfloat16") -> float:
    """Milliseconds of the host for an update by CUDA graphs."""
    seconds, operations = replayed(partial(build, work, precision, graphs=True))
    return 1000 * (seconds + operations * DRIVER)


def build(work: Workload, precision: str, cupy: ModuleType, graphs: bool = False) -> Callable[[], object]:
    """A function that makes an update of the workload.   graphs: by CUDA graphs"""
    batches = [random_batch(work.size)] * work.micro_batches
    return our_update(work.size, precision, Device(cupy, "cpu"), batches, graphs)[1]


def measure(forecast: Forecast, work: Workload, device: Device, precision: str = "bfloat16", repeats: int = 5) -> float:
    """Set ``measured`` of the rows that are kernels and products of this package; returns the milliseconds of an
    update."""
    batches = [random_batch(work.size)] * work.micro_batches
    _, update = our_update(work.size, precision, device, batches)
    whole = in_turn({"update": update}, work.size, device)["update"]["device"]
    found: dict[tuple[str, str], float] = defaultdict(float)

    def timed(call: Call, make: Callable[[], object]) -> object:
        times = 1 if call.name in NOT_REPEATABLE else repeats
        result = make() if times > 1 else None
        seconds = once(lambda: [make() for _ in range(times)], device) / times
        found[call.name, class_of(call)] += 1000 * seconds
        return result

    with observed(timed):
        update()
    for row in forecast.rows:
        row.measured = found.get((row.name, row.kind))
    return sorted(whole)[len(whole) // 2]


def report(name: str, work: Workload, forecast: Forecast, measured: float | None = None) -> list[str]:
    """A table: a row for each kernel, the sum, and the forecast of an update."""
    size, times = work.size, f"{work.micro_batches} x " if work.micro_batches > 1 else ""
    heads = ["", "launches", "MB", "GFLOP", "ideal ms", "forecast ms", "host ms"]
    heads += ["measured ms", "error"] if measured else []
    lines = [f"## {name}, bfloat16, {times}{size.sentences:,} x ({size.tokens} + {size.tokens}) tokens", ""]
    lines += markdown_head(heads)
    for row in forecast.rows:
        what = row.name if row.kind in (row.name, "one pass") else f"{row.name} ({row.kind})"
        lines.append(markdown_row([what, *_cells(row, measured is not None)]))
    sums = Row("", "", **{key: forecast.sum(key) for key in ("launches", "bytes", "flops", "ideal", "device", "host")})
    lines.append(markdown_row(["**sum**", *_cells(replace(sums, measured=measured), measured is not None)]))
    device, host = forecast.sum("device"), forecast.sum("host")
    tokens = 1000 * work.micro_batches * size.sentences * size.tokens
    longest, updates = max(device, host), f"{work.updates:,} updates"
    lines += ["", f"**{device:.1f} ms an update**, {tokens / device:,.0f} target tokens/s, where the host keeps up. "]
    graphs = f", with CUDA graphs {forecast.replayed:.1f}" if forecast.replayed else ""
    lines[-1] += f"This machine's would need {host:.1f} ms{graphs}. "
    lines[-1] += f"{updates}: {_duration(work.updates * device)}"
    lines[-1] += "." if longest == device else f", kernel by kernel with this host {_duration(work.updates * longest)}."
    if measured:
        error = longest / measured - 1
        lines[-1] += f" Measured: {measured:.1f} ms; the longer of the two is {error:+.0%} off."
    return lines


def _duration(milliseconds: float) -> str:
    minutes = milliseconds / 60_000
    return f"{minutes:.1f} minutes" if minutes < 60 else f"{minutes / 60:.1f} hours"


def _cells(row: Row, with_measured: bool) -> list[str]:
    cells = [f"{row.launches:,}", f"{row.bytes / 1e6:,.0f}", f"{row.flops / 1e9:,.0f}" if row.flops else ""]
    cells += [f"{each:.2f}" for each in (row.ideal, row.device, row.host)]
    if with_measured:
        known = row.measured is not None
        cells += [f"{row.measured:.2f}", f"{row.device / row.measured - 1:+.0%}"] if known else ["", ""]
    return cells


def assumptions() -> list[str]:
    """What the forecast takes for granted, as a table."""
    lines = ["## Assumed", "", "| class | share of the rate | source |", "| --- | --- | --- |"]
    lines += [markdown_row([name, f"{share.value:.2f}", share.source]) for name, share in SHARES.items()]
    return lines


def forecasts(device: Device | None = None, names: Sequence[str] = tuple(WORKLOADS)) -> str:
    """All tables in Markdown; with a device the rows are timed there."""
    lines = ["# Forecast of an update on one H200", ""]
    rates = f"{BYTES_PER_SECOND / 1e12} TB/s and {FLOPS_PER_SECOND / 1e12:.0f} TFLOP/s"
    lines += [f"At {rates}. `host ms` is Python on this machine, in the fastest of many updates that nothing"]
    lines += [f"watches, and {1e6 * DRIVER} microseconds an operation for CuPy and the driver. A row is a kernel, all"]
    lines += ["products of one shape (rows x sum x columns), or an operation of CuPy's own. All sentences are of one"]
    lines += ["length; those of more than 32 tokens need attention by several tiles, which costs 1 to 2 % more."]
    for name in names:
        found = forecast_of(calls_of(WORKLOADS[name]))._replace(replayed=replayed_host(WORKLOADS[name]))
        measured = None if device is None else measure(found, WORKLOADS[name], device)
        lines += ["", *report(name, WORKLOADS[name], found, measured)]
    return "\n".join([*lines, "", *assumptions()]) + "\n"
