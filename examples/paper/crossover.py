"""When does attention overtake recurrence? Three models on two tasks, scored after equal times on one core.

    python -m examples.paper.crossover speed                       seconds per update; on a quiet machine     0.1 h
    python -m examples.paper.crossover rates                       the learning rate of each model            1.7 h
    python -m examples.paper.crossover run --minutes 20            all up to 20 minutes: a first map          5.9 h
    python -m examples.paper.crossover run --minutes 80 --tasks Multi30k                                      9.1 h
    python -m examples.paper.crossover run --minutes 80 --tasks parsing --models GRU pre-norm                 6.1 h
    python -m examples.paper.crossover run --part test ...         with the options of the last two           0.2 h
    python -m examples.paper.crossover                             the page and the picture of all results so far

Hours are those of one core, 23 in all, including scoring and reading the data. Every training has a core of its own, so
that two cores run two at a time. Each step is a result by itself if the steps are run in this order. All three models
up to 80 minutes on both tasks take 26 hours: `run` resumes the trainings where they are. When killed, it loses the
updates since the last checkpoint.

A GRU with additive attention has about as many parameters as each Transformer, post-norm and pre-norm. Minutes are the
updates times the seconds per update in results/crossover_speed.json. One training is scored at all its minutes: the
learning rate falls as in eq. 3, after the same warm-up, no matter when the training ends. Of three learning rates each
model has the one with the lowest validation loss of seed 1 after 5 minutes. Multi30k is expected in data/multi30k, the
trees in data/craft_trees.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each training has a core of its own
from examples import report_errors
from examples.paper.crossover_report import draw, losses_of, markdown, rates_page
from examples.paper.crossover_tasks import TASKS, config_of, task_of, updates_of
from examples.paper.points import learn
from examples.paper.program import read_results, showing, write_report
from examples.paper.sweep import Job, check_same, check_settings, run_sweep
from examples.parsing.speed import measure, read_speeds
from examples.report import machine_facts
from minitransformer.blas import core_count
from minitransformer.checkpoints import load_checkpoint
from minitransformer.checkpoints.run_folder import RunFolder
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number
from minitransformer.errors import ConfigError
from minitransformer.planning import parameter_count
from minitransformer.training import Trainer
from minitransformer.workers import limit_threads

SETTINGS = {
    "models": {
        "GRU": {"kind": "recurrent", "n_layers": 2, "attention": "additive"},
        "post-norm": {"norm": "post"},
        "pre-norm": {"norm": "pre"},
    },
    "tasks": {
        "Multi30k": {"n_layers": 3, "tokens": 512, "micro_batches": 2, "vocab_size": 4000},
        "parsing": {"n_layers": 4, "tokens": 512, "micro_batches": 4, "form": "C"},
    },
    "width": 128,
    "p_drop": 0.2,
    "warmup_steps": 400,
    "rated_at": 5,
    "minutes": [2.5, 5, 7, 10, 14, 20, 28, 40, 57, 80],
    "save_every": 100,
}
"""tasks: n_layers is the Transformers', tokens are the padded target tokens of a micro-batch, whose sentences are
about equally long   width: of the Transformers   rated_at: minutes after which learning rates are compared
minutes: at which a training is scored"""
RATES = [0.0015, 0.003, 0.006]
"""Peak learning rates, reached at the end of the warm-up."""
RESULTS = Path(__file__).parent / "results/crossover.jsonl"


@report_errors
def main() -> int:
    arguments = build_parser().parse_args()
    settings = SETTINGS | {"width": arguments.width}
    if not all(rate > 0 for rate in arguments.rates):
        raise ConfigError(f"--rates must be above 0, got {min(arguments.rates):g}")
    if arguments.job:
        print(json.dumps(measured(json.loads(arguments.job))))
    elif arguments.step == "speed":
        measure_speed(arguments, settings)
    else:
        if arguments.step:
            run(arguments, settings)
        if arguments.step == "rates":
            with showing(arguments.results):
                page = rates_page(read_results(arguments.results))
            print(page, end="")
        else:
            report(arguments)
    return 0


def build_parser() -> Parser:
    tasks, models, minutes = list(TASKS), list(SETTINGS["models"]), SETTINGS["minutes"]
    parser = Parser(prog="python -m examples.paper.crossover", description=__doc__)
    parser.add_argument("step", nargs="?", choices=("speed", "rates", "run"), help="default: only the page")
    parser.add_argument("--part", choices=("val", "test"), default="val", help="what `run` scores; the test set last")
    parser.add_argument("--minutes", type=float, choices=minutes, default=minutes[-1], help="length of a training")
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks, help=f"any of {', '.join(tasks)}")
    parser.add_argument("--models", nargs="+", choices=models, default=models, help=f"any of {', '.join(models)}")
    shown = f"highest learning rates (default {' '.join(f'{rate:g}' for rate in RATES)})"
    parser.add_argument("--rates", nargs="+", type=float, default=RATES, metavar="X", help=shown)
    add_number(parser, "--seeds", 3, "seeds 1 to this many of `run`")
    add_number(parser, "--width", SETTINGS["width"], "of the Transformers; another needs --results of its own")
    add_number(parser, "--processes", core_count(), "trainings at a time, one core each")
    parser.add_argument("--folder", type=Path, default="runs/paper/crossover", help="of all trainings")
    parser.add_argument("--results", type=Path, default=RESULTS, help="default results/ beside this file")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser


def speed_path(results: Path) -> Path:
    return results.with_name(f"{results.stem}_speed.json")


def measure_speed(arguments: argparse.Namespace, settings: dict) -> None:
    """Measure the seconds per update of the models on the tasks, in turn; save them with the settings they hold for."""
    facts, trainers = {"settings": settings, **machine_facts()}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.tasks:
            task = task_of(name, settings)
            for model in arguments.models:
                config = config_of(name, model, task.sizes, 1, RATES[0], Path(folder), settings)
                trainers[f"{name}, {model}"] = Trainer(config, task.corpus, progress=False)
                task.prepare(trainers[f"{name}, {model}"])
        measure(speed_path(arguments.results), trainers, facts)


def with_speeds(path: Path, settings: dict) -> dict:
    """The settings of the trainings, with the seconds per update by which minutes become updates.

    Raises:
        ConfigError: `speed` has not measured them.
        DataError: `speed` has measured them with other settings.
    """
    names = [f"{name}, {model}" for name in settings["tasks"] for model in settings["models"]]
    with showing(path):
        speeds = read_speeds(path)
        for name in names:
            if name not in speeds:
                raise ConfigError(f"{path}: must hold the speed of {name}, got none; run the step speed first")
            check_same(path, settings, speeds[name].get("settings"))
        return settings | {"update_seconds": {name: round(speeds[name]["seconds"], 4) for name in names}}


def run(arguments: argparse.Namespace, settings: dict) -> None:
    """Run the jobs of this step that have no result yet, seed by seed."""
    settings = with_speeds(speed_path(arguments.results), settings)
    check_settings(arguments.results, settings)
    with showing(arguments.results):
        jobs = jobs_of(arguments, settings)
    run_sweep(jobs, arguments.results, arguments.processes)


def jobs_of(arguments: argparse.Namespace, settings: dict) -> list[Job]:
    """The jobs of the step `rates`, one for each rate, or of `run`, one for each seed."""
    results, jobs = read_results(arguments.results), []
    if arguments.step == "rates":
        seeds, minutes, part = [1], settings["rated_at"], "rates"
    else:
        seeds, minutes, part = range(1, arguments.seeds + 1), arguments.minutes, arguments.part
    for seed, task, model in product(seeds, arguments.tasks, arguments.models):
        what = {"task": task, "model": model, "minutes": minutes, "part": part}
        rates = arguments.rates if part == "rates" else [best_rate(results, task, model, arguments.rates)]
        jobs += [job_of(what | {"rate": rate}, seed, arguments, settings) for rate in rates]
    return jobs


def job_of(what: dict, seed: int, arguments: argparse.Namespace, settings: dict) -> Job:
    """The training, or the scoring of a test set, whose result has this name."""
    name = name_of(what)
    command = f"python -m examples.paper.crossover {shlex.join(sys.argv[1:])}"
    job = {
        "name": name,
        "seed": seed,
        **what,
        "folder": str(arguments.folder),
        "command": command,
        "settings": settings,
    }
    words = [sys.executable, "-m", "examples.paper.crossover", "--job", json.dumps(job)]
    return Job(name, seed, words, arguments.folder / f"{name}-{seed}.log".replace(", ", "-").replace(" ", "-"))


def name_of(what: dict) -> str:
    name = f"{what['task']}, {what['model']}, {what['minutes']:g} minutes"
    return {"val": name, "rates": f"{name}, rate {what['rate']:g}", "test": f"{name}, test set"}[what["part"]]


def best_rate(results: Sequence[dict], task: str, model: str, rates: Sequence[float]) -> float:
    """The learning rate with the lowest validation loss of all that were tried, which include ``rates``.

    Raises:
        ConfigError: one of ``rates`` was not tried, or the model has been trained with a rate that is not the best.
    """
    losses = losses_of(results, task, model)
    for rate in rates:
        if rate not in losses:
            raise ConfigError(f"run: must follow the step rates, got no result of {task}, {model}, rate {rate:g}")
    best = min(losses, key=losses.get)
    for each in results:
        if (each["task"], each["model"]) == (task, model) and each["part"] != "rates" and each["rate"] != best:
            raise ConfigError(
                f"run: the rate of {each['name']}, seed {each['seed']}, must be the best that was tried, {best:g}, got "
                f"{each['rate']:g}; delete its line"
            )
    return best


def measured(job: dict) -> dict:
    """The result of one job: the points of a training up to its minutes, or the score of the test set there."""
    name, model, settings, is_test = job["task"], job["model"], job["settings"], job["part"] == "test"
    with limit_threads(1):
        task = task_of(name, settings, is_test)
        config = config_of(name, model, task.sizes, job["seed"], job["rate"], Path(job.pop("folder")), settings)
        updates = [updates_of(name, model, each, settings) for each in settings["minutes"] if each <= job["minutes"]]
        if is_test:
            trained = load_checkpoint(RunFolder(config.training.directory).path_of(updates[-1]))
            found = {"score": task.score(config, trained.build()[0])}
        else:
            options = {"score": lambda network: {"score": task.score(config, network)}, "prepare": task.prepare}
            found = {"points": learn(config, task.corpus, updates, **options)}
    size = {"width": config.model.d_model, "parameters": parameter_count(config.model)}
    return {**job, **found, **size, "machine": machine_facts()}


def report(arguments: argparse.Namespace) -> None:
    """Write the page and the picture of all results so far."""
    results = read_results(arguments.results)
    if not any(result.get("part") == "val" for result in results):
        raise ConfigError(f"{arguments.results}: must hold results of the step run, got none; run the steps in order")
    with showing(arguments.results):
        text, figure = markdown(results), draw(results)
    write_report(arguments.results, text, figure)


if __name__ == "__main__":
    sys.exit(main())
