"""``python -m minitransformer`` is the same as the command ``minitransformer``."""

import signal
import sys

if __name__ == "__main__":
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports: no traceback
    from minitransformer.cli.main import main

    signal.signal(signal.SIGINT, before)
    sys.exit(main())
