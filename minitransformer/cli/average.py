"""``average``: one checkpoint whose parameters are the mean of several  [sec. 6.1]."""

import argparse
from pathlib import Path

from minitransformer.cli.common import report, writable_file
from minitransformer.cli.options import add_output_option, at_least_one
from minitransformer.errors import ConfigError


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("average", help="write the mean of several checkpoints of one run")
    shown = "checkpoint files; with --last: the training.directory of one run"
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="CHECKPOINT", help=shown)
    shown = (
        "the K newest checkpoints of the run; those that a signal left between others are used only if there are too "
        "few (default: the files that are named)"
    )
    parser.add_argument("--last", type=at_least_one, metavar="K", help=shown)
    shown = "round each row of parameters to 8-bit integers and a scale: a quarter of the size (default: as trained)"
    parser.add_argument("--int8", action="store_true", help=shown)
    add_output_option(parser, "checkpoint to write")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.checkpoints import average_checkpoints, newest_checkpoints

    paths = arguments.checkpoints
    if arguments.last is not None:
        if len(paths) != 1:
            raise ConfigError(f"--last must be used with one directory, got {len(paths)}")
        paths = newest_checkpoints(paths[0], arguments.last)
    output = writable_file(arguments.output, paths)
    average_checkpoints(paths).save(output, int8=arguments.int8)
    report(f"{output}: mean of {len(paths)} checkpoints, {', '.join(path.name for path in paths)}")
