"""All measurements on a GPU in one command, from the most to the least valuable.

    python -m benchmarks.gpu --first-run --seconds 540 --out FOLDER          the first time on a card
    python -m benchmarks.gpu --seconds 3000 [--out FOLDER] [--data FOLDER] [--stages NAME ...]      all of it
    python -m benchmarks.gpu --first-run --quick                             a rehearsal: it needs no card

Each stage runs in a process of its own, with a time limit. A stage that fails or takes too long is recorded with all
that it has measured until then, and the others still run. Results are saved after every part, so none is lost when a
machine is taken away, and a failure never replaces an earlier result. No process outlives the call, even if the call is
killed. It needs CuPy and, for the comparison, PyTorch; nothing is downloaded. It ends with one screen: what is right,
what is wrong, and the three largest costs of an update. The exit code is 0 whatever was found; only a rehearsal, in
which nothing but our own code can be wrong, ends with 1 if a stage failed.

multi30k, micro-batches and newstest need the text that `python -m examples.data get` downloads, in --data; newstest
also needs multi30k or tatoeba_en_de, to learn subwords from. A training that runs out of time resumes from its
checkpoint in the next call. Results go to gpu-CARD-COMMIT.json and .md, where those of an earlier call are kept;
compiled kernels, the log of the tests and trainings to runs/ beside them.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.tables import RESULTS
from benchmarks.gpu.results import Results, failures, outcome, screen
from benchmarks.gpu.stage_process import run_stage
from benchmarks.gpu.stages import RUNS, STAGES
from minitransformer.cuda_diagnosis import driver_version

SECONDS = 540
"""For all stages, with time to start and to end within the ten minutes that shared machines give a command."""


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--first-run", action="store_true", help="only what shows whether all is right, and how fast")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; saves only with --out")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results go (default: benchmarks/results)")
    named = os.environ.get("MINITRANSFORMER_DATA")
    parser.add_argument(
        "--data", metavar="FOLDER", default=named, help="text (default: what MINITRANSFORMER_DATA names)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help=f"seconds for all stages (default: {SECONDS})"
    )
    parser.add_argument("--stages", nargs="+", choices=STAGES, metavar="NAME", help=f"of: {'; '.join(STAGES)}")
    parser.add_argument("--commit", help="the commit, where git cannot tell it (default: ask git)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = parse_arguments(argv)
    rehearsed = driver_version() == 0
    if rehearsed and not (options.first_run and options.quick):
        print("benchmarks.gpu: nothing was measured: there is no NVIDIA driver; --first-run --quick is a rehearsal")
        return 0
    began = time.monotonic()
    folder = options.out or (None if options.quick else RESULTS)
    runs = (options.out / "runs" if options.out else RUNS).resolve()
    os.environ["CUPY_CACHE_DIR"] = str(runs / "kernels")  # compiled once for all stages
    settings = ["--runs", str(runs), *(["--quick"] if options.quick else []), *(["--rehearse"] if rehearsed else [])]
    settings += ["--data", str(Path(options.data).resolve())] if options.data else []
    checked = run_stage("doctor", min(options.seconds, STAGES["doctor"].limit), settings, lambda part: None)
    if "machine" not in checked:
        print(f"benchmarks.gpu: nothing was measured: {outcome(checked)}")
        return 0
    facts = checked["machine"] | ({"commit": options.commit} if options.commit else {})
    results = Results(folder, facts, options.quick)
    results.keep("doctor", checked)
    for name in options.stages or [name for name, stage in STAGES.items() if stage.is_first or not options.first_run]:
        if name != "doctor":
            left = options.seconds - (time.monotonic() - began)
            _keep(results, name, left if rehearsed else min(left, STAGES[name].limit), settings)
        print(f"{time.monotonic() - began:4.0f} s  {name}: {outcome(results.stages[name])}"[:118], flush=True)
    print(f"\n{screen(results.stages)}\n{results.path or ''}")
    return int(rehearsed and any(failures(each) for each in results.stages.values()))


def _keep(results: Results, name: str, limit: float, settings: Sequence[str]) -> None:
    if limit < 5:
        results.keep(name, {"left out": "the time is used up"})
        return

    def keep_part(part: dict) -> None:
        results.keep(name, part | {"failed": "cut short"})  # what stands there if this process is killed

    results.keep(name, run_stage(name, limit, settings, keep_part))


if __name__ == "__main__":
    sys.exit(main())
