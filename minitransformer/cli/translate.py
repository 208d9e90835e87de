"""``translate``: standard input to standard output, or sentence by sentence when a person types."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from minitransformer.cli.common import add_model_options, add_search_options, open_model, stdin_lines
from minitransformer.errors import ConfigError, MiniTransformerError


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate standard input, or what is typed",
        description="Translate standard input, one sentence a line, to standard output; ask when a person types.",
    )
    add_model_options(parser)
    add_search_options(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        default=1,
        metavar="N",
        help="hypotheses printed per sentence, best first, each on its own line after the sentence's number, counted "
        "from 1, and a tab; at most the beam size (default: 1, without number)",
    )
    parser.set_defaults(run=run)
