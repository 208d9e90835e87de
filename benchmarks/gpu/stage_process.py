"""A stage as a process of its own: what it has measured is kept if it fails, and nothing of it outlives its caller."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread

COMMAND = (sys.executable, "-m", "benchmarks.gpu.stages")


def run_stage(name: str, limit: float, options: Iterable[str], on_result: Callable[[dict], None]) -> dict:
    """The last result that the stage printed; ``failed`` is the reason if it did not end well; ``seconds`` is always
    there.

    options: of the stage   on_result: is called with each result at once, so that none is lost with this process
    """
    alive, held = os.pipe()  # ``held`` is closed with this process, however it ends: then the stage reads the end
    command = [*COMMAND, name, "--alive", str(alive), "--seconds", str(limit), *options]
    began, result, failure = time.monotonic(), {}, {}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
            process_group=0, pass_fds=[alive], cwd=Path(__file__).parents[2],
        )  # fmt: skip

        def read() -> None:
            for line in process.stdout:
                if (found := _result_of(line)) is not None:
                    result.clear()
                    result.update(found)
                    on_result(found)

        reader = Thread(target=read, daemon=True)
        reader.start()
        try:
            if code := process.wait(limit):
                errors.seek(0)
                end = errors.read().strip().split("\n")[-25:]
                failure = {"failed": f"exit status {code}: {end[-1]}", "end": end}
        except subprocess.TimeoutExpired:
            failure = {"failed": f"not done after {limit:.0f} seconds"}
        finally:
            _kill_group(process)
            reader.join(10.0)  # seconds; what has left the group may still hold the pipe
            os.close(alive)
            os.close(held)
    if not (result or failure):
        failure = {"failed": "no result was printed"}
    return result | failure | {"seconds": round(time.monotonic() - began, 1)}


def _kill_group(process: subprocess.Popen) -> None:
    """The stage and whatever it has started."""
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _result_of(line: str) -> dict | None:
    """The JSON object that a line is, if it is one."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def end_with_caller(alive: int) -> None:
    """In a stage: kill its process group as soon as the other end of the pipe ``alive`` is closed."""

    def wait() -> None:
        os.read(alive, 1)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    Thread(target=wait, daemon=True).start()


def one_by_one(
    names: Iterable[str], measure: Callable[[str], dict | float], results: dict, wait: Callable[[], object]
) -> dict:
    """``results[name] = measure(name)``, or why it failed; printed after each, so that none is lost if the next one
    fails.

    wait: for the device; if that fails after an error, so would every later call of this process, and none is made
    """
    for name in names:
        try:
            results[name] = measure(name)
        except Exception as error:
            results[name] = {"failed": reason(error)}
            try:
                wait()
            except Exception as lasting:
                results["failed"] = f"ended after {name}, as the device answers no more: {reason(lasting)}"
        print(json.dumps(results), flush=True)
        if "failed" in results:
            break
    return results


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
