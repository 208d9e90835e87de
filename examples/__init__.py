"""Programs around the package, and what they share: the errors of their users as one line."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from minitransformer.cli.common import FAULT, MAX_MESSAGE, explain
from minitransformer.errors import printable


def report_errors(main: Callable[..., int]) -> Callable[..., int]:
    """``main`` of a program with the errors of its user as one line on standard error and exit code 2, 130 after
    Ctrl-C."""

    @wraps(main)
    def wrapped(*arguments: object) -> int:
        try:
            return main(*arguments)
        except (Exception, KeyboardInterrupt) as error:
            message, code = explain(error)
            if code == FAULT:
                raise
            program = Path(sys.argv[0])  # of a folder that is run by -m its __main__.py
            name = program.parent.name if program.stem == "__main__" else program.stem
            print(printable(f"{name}: {message}", MAX_MESSAGE), file=sys.stderr)
            return code

    return wrapped
