"""Which exercises are yours: ``python -m course.progress``, in the folder ``lessons``.

``--reset`` deletes all that is kept.
"""

import argparse
import sys

from course.exercise import all_exercises, exercises_of, lessons_with_exercises
from course.mine import FOLDER, HEADER, Unusable, folder, kept

WIDTH = max(map(len, lessons_with_exercises())) + 1


def table() -> str:
    """A line per lesson, one for all, and one for each file that cannot be used."""
    lines, faults, total = [], [], 0
    for lesson in lessons_with_exercises():
        own = []
        for name in exercises_of(lesson):
            try:
                if kept(name) is not None:
                    own.append(name.partition(".")[2])
            except Unusable as error:
                faults.append(f"{name}.py cannot be used: {error}.")
        total += len(own)
        lines.append(f"{lesson:{WIDTH}}{len(own):3} of {len(exercises_of(lesson)):2}  {', '.join(own)}".rstrip())
    return "\n".join([*lines, f"{'yours':{WIDTH}}{total:3} of {len(all_exercises()):2}", *faults])


def reset() -> str:
    """Delete the files that ``check`` wrote, and no others."""
    paths = [folder() / f"{name}.py" for name in all_exercises()]
    paths = [path for path in paths if path.exists() and path.read_bytes().startswith(HEADER[:20].encode())]
    for path in paths:
        path.unlink()
    return f"Deleted from {folder()}: {len(paths)} functions."


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.progress", description="Which exercises are yours.")
    parser.add_argument("--reset", action="store_true", help="delete all that is kept")
    options = parser.parse_args(argv)
    if folder() is None:
        print(f"{FOLDER} is off: nothing is kept.")
        return 1
    print(reset() if options.reset else table())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
