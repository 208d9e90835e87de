"""Lets a rank write past mpiexec, straight to where ``launch`` itself writes.

    python past_mpiexec.py STDOUT STDERR PROGRAM ...

becomes ``PROGRAM ...`` with the two inherited descriptors as its standard output and error: what it writes is there at
once and untouched, and a terminal is still one. All that is left on mpiexec's own output are mpiexec's own words.
"""

from __future__ import annotations

import os
import sys


def main(stdout: str, stderr: str, *program: str) -> None:
    for ours, theirs in ((int(stdout), 1), (int(stderr), 2)):
        os.set_inheritable(os.dup(theirs), True)  # mpiexec takes the end of its own pipe for the end of the rank
        os.dup2(ours, theirs)
        os.close(ours)
    os.execv(program[0], program)


if __name__ == "__main__":
    main(*sys.argv[1:])
