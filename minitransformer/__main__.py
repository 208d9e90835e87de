"""``python -m minitransformer`` is the same as the command ``minitransformer``."""

import sys

from minitransformer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
