"""Prove a folder of kept functions again, from its sources alone: ``python -m course.verify lessons/mine``.

It runs them in a process of its own, with limits of time and memory; writing files, starting programs and the network
are refused there. That stops accidents, not an attack: look at a stranger's files before you run them.
"""

import argparse
import contextlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from course.mine import FOLDER, folder

SECONDS, BYTES = 300, 4 * 2**30
STOPPED = f"Stopped: it took more than {SECONDS} s of processor time, or was killed."
MODEL_SECONDS = 100
"""Of these, for the gradient of the model, and for its training."""
REFUSED = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod")
REFUSED += ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "shutil.rmtree")


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: raises for all that would change something outside this process."""
    writes = event == "open" and (
        any(letter in (arguments[1] or "") for letter in "wax+")
        or bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    )
    if writes or event in REFUSED:
        raise PermissionError(f"{event} is refused while functions are verified")


def limit() -> None:
    """Limits of processor time and memory, where the system has them."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def confine() -> None:
    """Limits and refusals for the rest of this process."""
    tempfile.gettempdir()  # finds out by writing where temporary files could go; sacreBLEU asks when it is imported
    limit()
    sys.addaudithook(refuse)


def prove() -> int:
    """Inside the limits: test every function, the gradient of the model and its copies."""
    import numpy as np

    from course.assembly import assembled
    from course.calls import Trouble, called_with_care
    from course.mine import own_or_solution, source_hash
    from course.slowness import slowness
    from course.transplants import CHAINS, copies, gradient_error

    confine()
    with contextlib.redirect_stdout(io.StringIO()):  # what the files themselves print
        model, faults = assembled()
        slow = {name: slowness(name, own_or_solution(name)[0]) for name, fault in faults.items() if not fault}
    print(f"yours: {len(slow)} of {len(faults)}")
    for name, remark in sorted((faults | slow).items()):
        if remark:
            print(f"  {name}: {remark}")
    print(f"SHA-256 of the sources: {source_hash(slow)}", flush=True)
    _, chain, *inputs = CHAINS["12_decoding"](model, np.random.default_rng(0))
    try:
        error = called_with_care(lambda: gradient_error(model, chain, inputs), MODEL_SECONDS)
        print(f"gradient of the whole model: relative error {error:.1e}", flush=True)
        called_with_care(lambda: copies(model), MODEL_SECONDS)
    except Trouble as trouble:
        print(f"the model of them does not run: {trouble}")
        return 1
    unusable = [name for name, fault in faults.items() if fault and (folder() / f"{name}.py").exists()]
    return 0 if error < 1e-6 and not unusable else 1


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.verify", description="Prove kept functions again.")
    parser.add_argument("folder", type=Path, help="such as lessons/mine")
    place = parser.parse_args(argv).folder.resolve()
    if not place.is_dir():
        print(f"{place} is not a folder.")
        return 2
    code = run_apart("import sys; from course.verify import prove; sys.exit(prove())", place)
    if code < 0:
        print(STOPPED)
    return 1 if code else 0


def run_apart(program: str, place: Path, output: Any = None) -> int:
    """The exit code of a program in a process of its own, for which ``place`` is the folder of kept functions; below 0
    if it was stopped. It prints to ``output``, an open file, or to this process's own."""
    paths = os.pathsep.join(str(path) for path in sys.path if path)
    environment = {**os.environ, FOLDER: str(place), "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, "-B", "-c", program]
    try:
        return subprocess.run(words, env=environment, stdout=output, timeout=5 * SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        return -1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
