"""`ranked_run.py` under ``launch``: python launched_run.py N DIRECTORY JSON [FAULT RANK UPDATE]"""

import sys
from pathlib import Path

from minitransformer.cli.common import print_line
from minitransformer.distributed.supervision.launch import Launch

if __name__ == "__main__":
    _, size, *program = sys.argv
    words = [str(Path(__file__).with_name("ranked_run.py")), *program]
    sys.exit(Launch(words, int(size), lambda message: print_line("train", message)).wait())
