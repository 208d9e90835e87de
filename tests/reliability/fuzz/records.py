"""Inputs of the reader of JSON lines: the metrics of a run."""

import json
from pathlib import Path
from random import Random

from minitransformer.figures import draw_learning_curves, png_bytes
from minitransformer.training import read_metrics
from minitransformer.training.recorder import MetricsRecorder

from .mutations import altered, changed
from .worker import Reader


class Metrics(Reader):
    """The lines of an accepted file can be cut after an update, as a resumed run does, and (one in 500 files) drawn."""

    name = "metrics"

    def __init__(self, folder: Path):
        super().__init__(folder)
        facts = {"epoch": 1, "loss": 5.25, "nll": 5.0, "ppl": 148.4}
        speed = {"tokens_per_second": 1e4, "learning_rate": 1e-3, "gradient_norm": 0.5}
        lines = [
            {"kind": "train", "update": number, **facts, **speed, "seconds": 0.1 * number} for number in range(1, 5)
        ]
        lines += [
            {"kind": "epoch", "update": 4, **facts, "tokens": 99},
            {"kind": "valid", "update": 4, **facts, "bleu": 1.5},
        ]
        self.lines = lines

    def write(self, rng: Random, folder: Path) -> None:
        lines = altered(rng, self.lines) if rng.random() < 0.5 else self.lines
        data = b"".join(json.dumps(line).encode() + b"\n" for line in (lines if isinstance(lines, list) else [lines]))
        if lines is self.lines:
            data = changed(rng, [data])
        (folder / "metrics.jsonl").write_bytes(data)
        if rng.random() < 0.002:
            (folder / "draw").touch()

    def read(self, folder: Path) -> None:
        path = folder / "metrics.jsonl"
        lines = read_metrics(path)
        if (folder / "draw").exists():
            assert png_bytes(draw_learning_curves({"a run": lines})).startswith(b"\x89PNG")
        assert all("kind" in line and type(line["update"]) is int for line in lines)
        kept = MetricsRecorder(path, True, 1, lambda update: 1).cut_after(3)
        assert kept == read_metrics(path) or any(value != value for line in kept for value in line.values())
        assert [line["update"] for line in kept] == [line["update"] for line in lines if line["update"] <= 3]
