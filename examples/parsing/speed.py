"""Seconds of an update of several parsers on one core, in turn, so that other work slows all of them alike.

    python -m examples.parsing.speed examples/parsing/aligned*.toml

Writes results/speed.json: the medians by the names of the results, from which `compare` computes its minutes.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from examples import report_errors
from examples.paper.program import showing
from examples.parsing.train import RESULTS, add_data_options, config_of, prepare, with_vocabularies, word_dropout
from examples.report import machine_facts
from minitransformer.cli.common import writable_file
from minitransformer.cli.main import Parser
from minitransformer.files import read_bounded, write_text
from minitransformer.training import Trainer, train_step
from minitransformer.workers import limit_threads

ROUNDS, UPDATES = 12, 8


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m examples.parsing.speed", description=__doc__.split("\n")[0])
    parser.add_argument("configs", type=Path, nargs="+", metavar="CONFIG", help="recipes")
    add_data_options(parser)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of speed.json (default results/)")
    arguments = parser.parse_args(argv)
    facts = machine_facts()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments.results / "speed.json", trainers_of(arguments, folder), facts)
    return 0


def read_speeds(path: Path) -> dict[str, dict]:
    """What earlier calls have written, by name; nothing if there is no file. DataError if it is something else."""
    with showing(path):
        return dict(json.loads(read_bounded(path, 1 << 20)).items()) if path.exists() else {}


def trainers_of(arguments: argparse.Namespace, folder: str) -> dict[str, Trainer]:
    """A trainer for each recipe, by the name of its results."""
    bank, corpus, _ = prepare(arguments.trees, arguments.form)
    trainers = {}
    for path in arguments.configs:
        config, name = config_of(path, arguments)
        training = replace(config.training, directory=f"{folder}/{name}", validate_every=0, threads=1)
        on_a_core = replace(config.execution, device="cpu")
        config = replace(with_vocabularies(config, bank), training=training, execution=on_a_core)
        trainers[name] = Trainer(config, corpus, progress=False)
        word_dropout(bank)(trainers[name])
    return trainers


def measure(path: Path, trainers: dict[str, Trainer], facts: dict) -> None:
    """Write the median seconds of an update of each trainer, with one thread, into ``path`` beside ``facts``; other
    entries there stay.

    The trainers take turns in each round; the first round, which is not counted, warms up.
    """
    read_speeds(writable_file(path))  # before long work whose result would be lost
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for number in range(ROUNDS + 1):
        for name, trainer in trainers.items():
            began = time.perf_counter()
            update_often(trainer, range(number * UPDATES + 1, (number + 1) * UPDATES + 1))
            seconds[name] += [(time.perf_counter() - began) / UPDATES] if number else []
    facts = facts | {"threads": 1}
    found = {name: {"seconds": statistics.median(each), "of": each, **facts} for name, each in seconds.items()}
    write_text(path, json.dumps(read_speeds(path) | found, indent=1) + "\n")
    for name, each in seconds.items():
        print(f"{name}: {statistics.median(each):.3f} s an update, {min(each):.3f} to {max(each):.3f}")


def update_often(trainer: Trainer, updates: range) -> None:
    training = trainer.config.training
    options = {"config": training, "accumulator": trainer.accumulator}
    with limit_threads(training.threads):
        for update in updates:
            train_step(trainer.model, trainer.optimizer, trainer.batches.of_rank(update), update=update, **options)


if __name__ == "__main__":
    sys.exit(main())
