"""Seconds of an update of several parsers, each in turn, so that what else the machine does befalls all of them alike.

    python -m examples.parsing.speed examples/parsing/aligned.toml examples/parsing/aligned-recurrent.toml

Writes results/speed.json: the medians by the names of the results, from which `compare` has its minutes.
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
from examples.parsing.train import RESULTS, add_data_options, config_of, prepare, with_vocabularies
from examples.parsing.words import WordDropout
from examples.report import machine_facts
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
    facts, found = machine_facts(), measure(arguments)
    path = arguments.results / "speed.json"
    names = read_speeds(path)
    names |= {name: {"seconds": statistics.median(seconds), "of": seconds, **facts} for name, seconds in found.items()}
    write_text(path, json.dumps(names, indent=1) + "\n")
    for name, seconds in found.items():
        print(f"{name}: {statistics.median(seconds):.3f} s an update, {min(seconds):.3f} to {max(seconds):.3f}")
    return 0


def read_speeds(path: Path) -> dict[str, dict]:
    """What earlier calls have written; nothing if there is no file."""
    return json.loads(read_bounded(path, 1 << 20)) if path.exists() else {}


def measure(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """For each recipe the seconds of an update in each round; the first round, which is not counted, warms up."""
    bank, corpus, _ = prepare(arguments)
    trainers, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.configs:
            config, name = config_of(path, arguments)
            config = with_vocabularies(config, bank)
            training = replace(config.training, directory=f"{folder}/{name}", validate_every=0)
            trainers[name] = Trainer(replace(config, training=training), corpus, progress=False)
            trainers[name].batches = WordDropout(trainers[name].batches, bank.words)
            seconds[name] = []
        for number in range(ROUNDS + 1):
            for name, trainer in trainers.items():
                began = time.perf_counter()
                update_often(trainer, range(number * UPDATES + 1, (number + 1) * UPDATES + 1))
                seconds[name] += [(time.perf_counter() - began) / UPDATES] if number else []
    return seconds


def update_often(trainer: Trainer, updates: range) -> None:
    training = trainer.config.training
    options = {"config": training, "accumulator": trainer.accumulator}
    with limit_threads(training.threads):
        for update in updates:
            train_step(trainer.model, trainer.optimizer, trainer.batches.of_rank(update), update=update, **options)


if __name__ == "__main__":
    sys.exit(main())
