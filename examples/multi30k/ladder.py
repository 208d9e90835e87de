"""What later tricks are worth on the model of 2017: Multi30k en-de, one changed setting after the other.

    python -m examples.multi30k.ladder                                  trains what is missing, then reports
    python -m examples.multi30k.ladder --only pre-norm --seed 2         one run
    python -m examples.multi30k.ladder --report                         what there is so far
    python -m examples.multi30k.ladder --test "twice the updates"       translates the test set with a rung, once

Every rung is the one below it with one setting changed, with three seeds; everything is chosen on the validation set. A
run that was killed resumes from its last checkpoint when it is started again, and "more updates" and "twice the
updates" begin where the training below them ended. Results are lines of ladder.jsonl, the report is ladder.md and
ladder.png.
Estimated core hours for three seeds: recipe and pre-norm 4.5 each, peak rate 8.9, more updates 1.5, dropout places 6.3,
BPE dropout 6.4, twice the updates 5.9 (README.md).
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each training has a core of its own
from examples import report_errors
from examples.multi30k.ladder_report import NOT_TRANSLATED, draw, markdown, test_scores
from examples.multi30k.one_run import (
    PROGRAM,
    config_of,
    folder_of,
    recorded,
    scores,
    settings_of,
    tokenizer_path,
    train_and_score,
)
from examples.multi30k.rungs import Step, climb, run_names, rungs
from examples.paper.program import read_results, showing, write_report
from examples.paper.recurrent_tasks import multi30k_tokenizer
from examples.paper.sweep import Job, check_same, check_settings, run_sweep
from examples.report import machine_facts
from minitransformer.blas import core_count
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number, at_least_one
from minitransformer.errors import ConfigError, DataError, quote
from minitransformer.evaluation import require_moses, require_sacrebleu
from minitransformer.files import read_bounded, write_text
from minitransformer.text import read_parallel

HERE = Path(__file__).parent
PATHS = {
    "recipe": (HERE / "multi30k.toml", "the lowest rung"),
    "data": (Path("data/multi30k"), "Multi30k's folder"),
    "directory": (Path("runs/ladder"), "of all runs"),
    "results": (HERE / "ladder.jsonl", "beside which the report is written"),
}


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    if arguments.job:
        name, seed = arguments.job
        step = next(step for step in steps_of(arguments) if step.run == name)
        print(json.dumps(train_and_score(step, int(seed), arguments)))
        return 0
    require_sacrebleu(), require_moses()
    if arguments.test:
        score_test(arguments)
    elif not arguments.report:
        train(arguments)
    report(arguments)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m examples.multi30k.ladder", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--only", nargs="+", metavar="RUNG", help="train these rungs (default: all)")
    what.add_argument("--report", action="store_true", help="train nothing (default: what is missing)")
    what.add_argument("--test", metavar="RUNG", help="translate the test set with all seeds of a rung (default: never)")
    what.add_argument("--job", nargs=2, metavar=("RUN", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("--seed", nargs="+", type=at_least_one, metavar="N", help="train these seeds (default: all)")
    add_number(parser, "--seeds", 3, "seeds 1 to this many for each rung")
    add_number(parser, "--updates", 8000, 'from the rung "more updates" on; twice as many from "twice the updates" on')
    add_number(parser, "--vocab-size", 8000, "subwords")
    add_number(parser, "--processes", core_count(), "trainings at a time")
    for name, (path, what_for) in PATHS.items():
        shown = f"{path.name} beside this program" if path.parent == HERE else path
        parser.add_argument(f"--{name}", type=Path, default=path, help=f"{what_for} (default: {shown})")
    return parser.parse_args(argv)


def steps_of(arguments: argparse.Namespace) -> list[Step]:
    """The steps known so far; DataError, which names the result, if one was measured with other settings."""
    path, results = arguments.results, read_results(arguments.results)
    with showing(path):
        steps = climb(results, arguments.seeds, arguments.updates)
        trained = {step.run: step for step in steps if step.run == step.label}
        for result in results:
            where = f"{path}: {result['name']}, seed {result['seed']}"
            if result["name"] not in run_names(arguments.updates):
                raise DataError(
                    f"{where}: must be of a rung, got another; delete the line, or choose another --results"
                )
            if result["name"] in trained:
                config = config_of(trained[result["name"]], result["seed"], arguments)
                check_same(where, recorded(config), result["config"])
    return steps


def train(arguments: argparse.Namespace) -> None:
    """Train the known steps that have no result yet, then those that these results have made known."""
    check_settings(arguments.results, settings_of(arguments))
    missing_jobs(arguments)  # refuses wrong settings before anything is made
    arguments.directory.mkdir(parents=True, exist_ok=True)
    if not tokenizer_path(arguments).exists():
        multi30k_tokenizer(arguments.vocab_size, arguments.data).save(tokenizer_path(arguments))
    while jobs := missing_jobs(arguments):
        run_sweep(jobs, arguments.results, arguments.processes)


def missing_jobs(arguments: argparse.Namespace) -> list[Job]:
    """Jobs of the rungs and seeds that were asked for; ConfigError if a rung is unknown, or not known yet."""
    steps = steps_of(arguments)
    done = {result["key"] for result in read_results(arguments.results)}
    names = {name: None for step in steps for name in (step.rung, step.label)}
    for name in arguments.only or ():
        if name not in names:
            waits = f"it waits for all seeds of {steps[-1].rung}" if name in rungs(1) else f"known: {', '.join(names)}"
            raise ConfigError(f"--only must be rungs that can be trained, got {quote(name, 60)}; {waits}")
    options = ("seeds", "updates", "vocab_size", *PATHS)
    given = [f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in options]
    command = [sys.executable, *PROGRAM.split()[1:], *given, "--job"]
    return [
        Job(step.run, seed, [*command, step.run, str(seed)], Path(f"{folder_of(step, seed, arguments)}.log"))
        for step in steps
        for seed in arguments.seed or range(1, arguments.seeds + 1)
        if step.run == step.label and (step.run, seed) not in done
        if not arguments.only or {step.rung, step.label} & set(arguments.only)
    ]


def path_of_test(arguments: argparse.Namespace) -> Path:
    return arguments.results.with_name(f"{arguments.results.stem}_test.json")


def score_test(arguments: argparse.Namespace) -> None:
    """Translate the test set with all seeds of a rung.

    Raises:
        ConfigError: it has been translated before, by whichever rung, or the rung lacks a result.
    """
    path, seeds = path_of_test(arguments), range(1, arguments.seeds + 1)
    if path.exists():
        raise ConfigError(f"--test must be given once, got a second time: {path} has the scores")
    done = {result["key"] for result in read_results(arguments.results)}
    steps = [step for step in steps_of(arguments) if step.label == arguments.test]
    if not steps or not all((steps[0].run, seed) in done for seed in seeds):
        raise ConfigError(f"--test must be a rung with results of all seeds, got {quote(arguments.test, 60)}")
    text = read_parallel(*(arguments.data / f"test_2016_flickr.{side}" for side in ("en", "de")))
    found = [
        {"seed": seed} | scores(config_of(steps[0], seed, arguments), steps[0].checkpoints, *text) for seed in seeds
    ]
    command = f'{PROGRAM} --test "{arguments.test}"'
    facts = {"rung": arguments.test, "scores": found, "command": command, "machine": machine_facts()}
    write_text(path, json.dumps(facts, indent=1) + "\n")


def report(arguments: argparse.Namespace) -> None:
    """Write the table and the picture of what there is."""
    results, path = read_results(arguments.results), path_of_test(arguments)
    if not results:
        raise ConfigError(f"{arguments.results}: must hold results, got none; train some first")
    steps = steps_of(arguments)
    with showing(path):
        test = test_scores(json.loads(read_bounded(path, 1 << 20))) if path.exists() else NOT_TRANSLATED
    with showing(arguments.results):
        text, figure = markdown(results, steps, arguments, test), draw(results, steps)
    write_report(arguments.results, text, figure)


if __name__ == "__main__":
    sys.exit(main())
