"""``python -m minitransformer``, which is the same as the command ``minitransformer``."""

import signal
import sys


def main() -> int:
    """`cli.main.main`, without a traceback if Ctrl-C comes during its imports."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from minitransformer.cli.main import main as run_command

    signal.signal(signal.SIGINT, before)
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
