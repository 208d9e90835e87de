"""What the experiments on the paper's claims share: trials with several seeds, then a page of their results.

A trial is a short training. Each runs in a process of its own and its result is a line of results/NAME.jsonl, so an
experiment that was killed resumes with the missing trials (see sweep.py). Started again when all are done, it rewrites
the report.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from examples import report_errors
from examples.paper.program import read_results, showing, write_report
from examples.paper.seeds import tested_by
from examples.paper.sweep import Job, check_settings, run_sweep
from examples.report import all_machines, machine_facts
from minitransformer.blas import core_count
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number
from minitransformer.nn import ParameterVector
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate
from minitransformer.workers import limit_threads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Experiment:
    """What `main` runs.

    program: its name, after which its results are named   description: for ``--help``
    settings: of the trials, JSON   quick: those that ``--quick`` replaces
    names: of the trials for these settings   trial: maps (name, seed, settings) to what it measured, JSON
    markdown: the page of the results   draw: their picture, if there is one
    """

    program: str
    description: str
    settings: dict
    quick: dict
    names: Callable[[dict], list[str]]
    trial: Callable[[str, int, dict], dict]
    markdown: Callable[[Sequence[dict]], str]
    draw: "Callable[[Sequence[dict]], Figure] | None" = None


@report_errors
def main(experiment: Experiment) -> int:
    """The command of an experiment; its exit code."""
    program = experiment.program
    parser = Parser(prog=f"python -m examples.paper.{program}", description=experiment.description)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one seed; writes nothing")
    add_number(parser, "--seeds", 5, "seeds 1 to this many for each trial")
    add_number(parser, "--processes", core_count(), "trials at a time")
    parser.add_argument("--results", type=Path, default=RESULTS / f"{program}.jsonl", help="default results/")
    parser.add_argument("--job", nargs=2, metavar=("NAME", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(measure(experiment, arguments.job[0], int(arguments.job[1]), experiment.settings)))
    elif arguments.quick:
        settings = experiment.settings | experiment.quick
        bar = tqdm(experiment.names(settings), desc="trials", unit="trial")
        print(experiment.markdown([measure(experiment, name, 1, settings) for name in bar]), end="")
    else:
        run(experiment, arguments)
    return 0


def measure(experiment: Experiment, name: str, seed: int, settings: dict) -> dict:
    """One trial, on one core, with where and how it was measured."""
    began = time.perf_counter()
    with limit_threads(1):
        figures = experiment.trial(name, seed, settings)
    took = {"seconds_in_all": round(time.perf_counter() - began, 2)}
    return {"name": name, "seed": seed, **figures, **took, "settings": settings, "machine": this_machine()}


this_machine = cache(machine_facts)  # asked for once: it starts processes


def run(experiment: Experiment, arguments: argparse.Namespace) -> None:
    """Run the trials that have no result yet, then report on the seeds that have every trial, as pairs need both."""
    check_settings(arguments.results, experiment.settings)
    folder, names = Path("runs/paper") / experiment.program, experiment.names(experiment.settings)
    jobs = [
        Job(
            name,
            seed,
            [sys.executable, "-m", f"examples.paper.{experiment.program}", "--job", name, str(seed)],
            folder / f"{name}-{seed}.log".replace(" ", "-"),
        )
        for seed in range(1, arguments.seeds + 1)
        for name in names
    ]
    run_sweep(jobs, arguments.results, arguments.processes)
    results = read_results(arguments.results)
    done = {result["key"] for result in results}
    whole = [each for each in results if done.issuperset((name, each["seed"]) for name in names)]
    with showing(arguments.results):
        text, figure = experiment.markdown(whole), experiment.draw(whole) if experiment.draw else None
    write_report(arguments.results, text, figure)


def learn(parameters: ParameterVector, compute_gradients: Callable[[], None], updates: int, peak_rate: float) -> None:
    """Train with Adam and eq. 3, with a tenth of the updates as warm-up and gradients clipped to norm 1.

    compute_gradients: of the next batch   peak_rate: the learning rate at the end of the warm-up, the highest
    """
    adam, warmup = Adam(parameters), max(updates // 10, 1)
    for update in range(1, updates + 1):
        parameters.zero_grad()
        compute_gradients()
        clip_gradient_norm(parameters.grad, 1.0)
        adam.step(learning_rate(update, d_model=1, warmup_steps=warmup, scale=peak_rate * warmup**0.5))


def provenance(program: str, results: Sequence[dict], test: str, elsewhere: Sequence[str] = ()) -> str:
    """The command, settings (except those ``elsewhere`` on the page), seeds, test, machine and commits of the results,
    a paragraph."""
    settings = ", ".join(f"{key} {value}" for key, value in results[0]["settings"].items() if key not in elsewhere)
    seeds = sorted({result["seed"] for result in results})
    processors, numpys, commits = (all_machines(results, fact) for fact in ("processor", "NumPy", "commit"))
    return (
        f"`python -m examples.paper.{program}`, seeds {', '.join(map(str, seeds))}; ± is the standard error over seeds,"
        f" and {tested_by(test)}. Settings: {settings}. {processors}, one core per trial, NumPy"
        f" {numpys}, commit {commits}."
    )
