"""``train CONFIG``: train a model as a TOML file says, or go on where an earlier sitting stopped."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minitransformer.config import Config
from minitransformer.settings import describe

DESCRIPTION = """\
Train a model as CONFIG says. If training.directory holds checkpoints of the same run, training goes on from the newest,
exactly as if it had never stopped. Ctrl-C (SIGINT), SIGTERM or SIGHUP saves a checkpoint and leaves."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "train", help="train a model as a TOML file says, or go on with it", description=DESCRIPTION, epilog=_keys()
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="TOML file; its keys are listed below")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="SECTION.KEY=VALUE",
        help="overrides a key of CONFIG; may be given several times (default: CONFIG alone)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        help="short for --set training.device=... (default: what CONFIG says)",
    )
    parser.add_argument(
        "--no-resume",
        action="store_true",
        help="refuse to start where training.directory holds checkpoints (default: go on from the newest)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = list(arguments.settings)
    if arguments.device:
        settings.append(f'training.device="{arguments.device}"')
    config = Config.load(arguments.config, settings)

    from minitransformer.training import Trainer

    outcome = Trainer(config, resume=not arguments.no_resume).run()
    state = "done" if outcome.signal is None else "stopped; the same command goes on from here"
    print(f"{config.training.directory}: {outcome.update} updates, {state}", file=sys.stderr)
    return outcome.exit_status


def _keys() -> str:
    """Every key of CONFIG with type, default, unit and meaning, one a line."""
    lines = ["keys of CONFIG (type, default: meaning), written as [section] and key = value:"]
    for key, kind, default, meaning in describe(Config):
        shown = f'"{default}"' if isinstance(default, str) else str(default).lower()
        lines.append(f"  {key} ({kind}, {shown}): {meaning}")
    return "\n".join(lines)
