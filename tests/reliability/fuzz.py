"""Feed damaged and hostile files to the readers: see tests/reliability/README.md.

    python -m tests.reliability.fuzz --inputs N --seed S [--reader NAME]

Every input is determined by (reader, seed, number): ``--reader NAME --seed S --only NUMBER`` repeats one, with a
traceback. The exit code is 1 if there are faults.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from .readers import READERS
from .sandbox import Reader, outcomes, rng_of


def count(reader: Reader, seed: int, inputs: int, folder: Path, keep: Path | None = None) -> tuple[Counter, float]:
    """(how many inputs were accepted, were refused, or had each fault; the CPU seconds of the slowest).

    keep: folder for the first input of each fault
    """
    counts, slowest = Counter(), 0.0
    for outcome in outcomes(reader, seed, range(inputs), folder):
        result = outcome.fault or ("accepted" if outcome.accepted else "refused")
        counts[result] += 1
        slowest = max(slowest, outcome.cpu_seconds)
        if outcome.fault and counts[result] == 1:
            print(f"{reader.name}, seed {seed}, input {outcome.index}: {result}", flush=True)
            if keep is not None:
                target = keep / f"{reader.name}_{seed}_{outcome.index}"
                shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
    return counts, slowest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=1000, help="inputs for each reader (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", action="append", choices=list(READERS), help="may be repeated (default: all)")
    parser.add_argument("--keep", type=Path, default=Path("runs/fuzz"), help="folder for the first input of each fault")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat this input of --reader, with a traceback")
    options, good = parser.parse_args(), True
    memory = Path("/dev/shm")
    for name in options.reader or READERS:
        with tempfile.TemporaryDirectory(prefix="fuzz", dir=memory if memory.is_dir() else None) as scratch:
            valid, folder = Path(scratch) / "valid", Path(scratch) / "input"
            valid.mkdir()
            reader = READERS[name](valid)
            if options.only is not None:
                folder.mkdir()
                reader.write(rng_of(name, options.seed, options.only), folder)
                return reader.read(folder) or 0
            counts, slowest = count(reader, options.seed, options.inputs, folder, options.keep)
        faults = counts.total() - counts["accepted"] - counts["refused"]
        row = (name, counts.total(), counts["accepted"], counts["refused"], faults, f"{slowest:.2f}")
        print("|", *(f"{each:,} |" if isinstance(each, int) else f"{each} |" for each in row), flush=True)
        good = good and not faults
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
