"""``train CONFIG``: train a model according to a TOML file, or resume an earlier run."""

import argparse
import json
import traceback
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import FAULT, explain, print_line
from minitransformer.cli.options import add_config_options, add_device_option
from minitransformer.config import Config
from minitransformer.files import write_text
from minitransformer.settings import describe

if TYPE_CHECKING:
    from minitransformer.distributed import ProcessGroup

DESCRIPTION = """\
Train a model according to CONFIG. If training.directory holds checkpoints of the same run, training resumes from the
newest, bit for bit. Ctrl-C (SIGINT), SIGTERM or SIGHUP saves a checkpoint and exits. A finished run writes its FLOPs,
by formula and as the paper counts, to cost.json there. Started by mpiexec, srun or `minitransformer launch`, all ranks
train together and share training.micro_batches."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "train", help="train a model according to a TOML file, or resume", description=DESCRIPTION, epilog=_keys()
    )
    add_config_options(parser, "TOML file; its keys are listed below")
    add_device_option(parser, None, "short for --set execution.device=... (default: as in CONFIG)")
    parser.add_argument(
        "--profile",
        action="store_true",
        help="at the end, write the forward and backward time of each op in the updates of this call to profile.json "
        "in training.directory, longest first (default: no)",
    )
    parser.add_argument(
        "--detect-anomaly",
        action="store_true",
        help="check every result of every op, and stop at the first that is NaN or infinite: slower, for finding a "
        "fault (default: only the loss and the gradient of each update are checked)",
    )
    parser.add_argument(
        "--rules",
        type=Path,
        metavar="FOLDER",
        help="train with the functions in FOLDER, such as lessons/mine, in place of the engine's rules: runs their "
        "code, and rules.py beside FOLDER, which knows how they are called (default: no)",
    )
    start = parser.add_argument_group("ranks on GPUs of several machines, where neither MPI nor Slurm numbers them")
    start.add_argument("--rank", type=int, metavar="R", help="the number of this rank, from 0")
    start.add_argument("--size", type=int, metavar="N", help="how many ranks there are")
    start.add_argument("--job", metavar="NAME", help="a name that all ranks share and no earlier start had")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.distributed import init_process_group

    names = arguments.rank, arguments.size, arguments.job
    with init_process_group(lambda message: print_line("train", message), *names).join(format_error) as process_group:
        return run_in_group(arguments, process_group)


def run_in_group(arguments: argparse.Namespace, process_group: "ProcessGroup") -> int:
    """Train as one of the ranks of ``process_group``."""
    settings = list(arguments.settings)
    if arguments.device:
        settings.append(f'execution.device="{arguments.device}"')
    config = Config.load(arguments.config, settings)

    from minitransformer.autograd import detect_anomaly
    from minitransformer.backend import device_wait, load_array_module
    from minitransformer.cli.rules import rules_of
    from minitransformer.cuda_diagnosis import unused_gpu
    from minitransformer.kernels.profile import Profile
    from minitransformer.training import Trainer

    is_rank_0, profile = process_group.rank == 0, None
    if arguments.profile and is_rank_0:
        profile = Profile(device_wait(load_array_module(config.execution.device)))
    say, rules = partial(print_line, "train"), nullcontext({})
    if arguments.rules is not None:
        rules = rules_of(arguments.rules, config, process_group.size, say)
    if is_rank_0 and (why := unused_gpu(config.execution.device)):
        say(why)  # first: if the CPU refuses something, such as half precision, the unused GPU may be why
    with rules as hashes, detect_anomaly(arguments.detect_anomaly):
        trainer = Trainer(config, profile=profile, process_group=process_group, rules=hashes)
        before, outcome = trainer.update, trainer.run()
    folder, say = trainer.folder.directory, trainer.progress.write  # of rank 0 alone, and forgiving if nobody reads it
    if profile is not None and profile.updates:
        threads = trainer.workers.size
        times = {"updates": profile.updates, "threads": threads, "milliseconds per update": profile.per_update(threads)}
        write_text(folder / "profile.json", json.dumps(times, indent=1) + "\n")
        say(f"{folder / 'profile.json'}: where the time of an update goes")
    state = "done" if outcome.signal is None else "stopped; the same command resumes from here"
    say(f"{folder}: {outcome.update} updates, {state}")
    path = folder / "cost.json"
    is_known = outcome.update == before and path.exists()  # measured again, other ranks or a busy machine change it
    if is_rank_0 and outcome.signal is None and outcome.update and not is_known:
        cost = trainer.cost()
        write_text(path, json.dumps(cost.to_dict(), indent=1) + "\n")
        say(f"{path}: {cost.formula:.1e} FLOPs by formula, {cost.paper:.1e} as the paper counts")
    return outcome.exit_status


def format_error(error: BaseException) -> tuple[str, int]:
    """(message, exit code) of the exception that ends this rank. A bug in the program also prints its traceback."""
    message, code = explain(error)
    if code == FAULT:
        traceback.print_exception(error)
    return message.removeprefix("train: "), code


def _keys() -> str:
    """Every key of CONFIG with type, default, unit and meaning, one a line."""
    lines = ["keys of CONFIG (type, default: meaning), written as [section] and key = value:"]
    for key, kind, default, meaning in describe(Config):
        shown = f'"{default}"' if isinstance(default, str) else str(default).lower()
        lines.append(f"  {key} ({kind}, {shown}): {meaning}")
    return "\n".join(lines)
