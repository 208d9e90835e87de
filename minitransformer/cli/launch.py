"""``launch -n N -- train ...``: train with several ranks on this machine."""

import argparse
from functools import partial

from minitransformer.cli.common import print_line
from minitransformer.config import Config
from minitransformer.errors import ConfigError

DESCRIPTION = """\
Train with N ranks on this machine. They share the micro-batches of each update: the result depends on N only through
the rounding of sums, which training amplifies. On GPUs, each rank uses one of its own. If one rank fails, all end, with
one message that names it. Ctrl-C (SIGINT), SIGTERM or SIGHUP is passed on: the ranks save a checkpoint and exit.
For several machines start `minitransformer train` itself with mpiexec or srun: see docs/ranks.md."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("launch", help="train with several ranks on this machine", description=DESCRIPTION)
    parser.add_argument("-n", type=int, required=True, metavar="N", dest="size", help="ranks to start")
    parser.add_argument(
        "train", nargs=argparse.REMAINDER, metavar="-- train ...", help="the train command with its options"
    )
    parser.set_defaults(run=run, commands=commands)


def run(arguments: argparse.Namespace) -> int:
    command = arguments.train[1:] if arguments.train[:1] == ["--"] else arguments.train
    if arguments.size < 1:
        raise ConfigError(f"launch: -n must be at least 1, got {arguments.size}")
    if command[:1] != ["train"]:
        raise ConfigError(f"launch: what follows -- must be a train command, got {' '.join(command) or 'nothing'}")
    # What is wrong with the options or the config is reported once, before any process is started.
    parsed = arguments.commands.choices["train"].parse_args(command[1:])
    if (parsed.rank, parsed.size, parsed.job) != (None, None, None):
        raise ConfigError("launch: --rank, --size and --job must be left out: launch itself numbers the ranks")
    micro_batches = Config.load(parsed.config, parsed.settings).training.micro_batches
    if arguments.size > micro_batches:
        raise ConfigError(
            f"launch: -n must be at most training.micro_batches, {micro_batches}, got {arguments.size}; start fewer, "
            "or set more micro-batches of fewer data.src_tokens and data.tgt_tokens"
        )
    from minitransformer.cli.train import format_error, run_in_group
    from minitransformer.distributed.launch import launch

    options = argparse.Namespace(**{name: value for name, value in vars(parsed).items() if name != "run"})
    return launch(partial(run_in_group, options), arguments.size, partial(print_line, "train"), format_error)
