"""The ordinary command line, with the models of sec. 4 registered: python -m examples.paper.run train CONFIG, ..."""

import sys

import examples.paper.models  # noqa: F401
from minitransformer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
