"""Strangers at the ports of a running job, at random moments: the job's result has the same bits as without them.

    python -m tests.reliability.network [--attempts 200] [--seed 1]
    python -m tests.reliability.network --quick          one job, writes no results

A job is `minitransformer launch -n 2 -- train`, with sums by TCP. From its first moment, threads that do not know its
token find its listening ports in /proc and connect to them, in every way of `strangers.KINDS`, until each kind has
happened --attempts times over several jobs. Every job must end with exit code 0 and say nothing of them, its last
checkpoint must equal that of the undisturbed job bit for bit, no process may be left, and no stranger may be proven
anything. Results go to tests/reliability/results/network.json after each job; the same command continues.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.reliability.strangers import KINDS, at_work_in, attempt, listening_ports

from benchmarks.common.machine import machine_facts
from minitransformer.checkpoints import load_checkpoint

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parents[2]
UPDATES = 120
CONFIG = f"""\
[model]
n_layers = 1
d_model = 16
d_ff = 32
n_heads = 2
dtype = "float64"
[data]
train_src = "text"
train_tgt = "text"
valid_src = "text"
valid_tgt = "text"
tokenizer = "bpe"
src_tokens = 64
tgt_tokens = 64
[training]
updates = {UPDATES}
micro_batches = 2
threads = 1
warmup_steps = 20
communicator = "tcp"
save_every = 20
validate_every = 40
"""


UNDISTURBED = {"exit code": 0, "messages": [], "bit for bit equal": True, "processes left": 0}
"""What becomes of a job without strangers, and must become of one with them."""


def start(folder: Path, directory: str) -> subprocess.Popen:
    """The job, which trains in ``directory`` of ``folder``."""
    train = ["train", "config.toml", "--set", f'training.directory="{directory}"']
    command = [sys.executable, "-m", "minitransformer", "launch", "-n", "2", "--", *train]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    env.pop("MINITRANSFORMER_TOKEN", None)
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def besiege(job: subprocess.Popen, kinds: list[str], seed: int, strangers: int = 6) -> Counter:
    """Let strangers do what ``kinds`` names, one after the other, while the job runs: how often each, and its end."""
    done, rest, lock = Counter(), list(kinds), threading.Lock()

    def stranger(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        while job.poll() is None and rest:
            ports = sorted(listening_ports(job.pid))
            if not ports:
                time.sleep(0.01)
                continue
            with lock:
                kind = rest.pop() if rest else None
            if kind is None:
                return
            end = attempt(kind, rng.choice(ports), rng)
            with lock:
                done[kind, end] += 1
                if end == "refused":
                    rest.insert(0, kind)
            time.sleep(rng.uniform(0, 0.1))

    threads = [threading.Thread(target=stranger, args=(number,)) for number in range(strangers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def state(folder: Path, directory: str) -> list[np.ndarray]:
    checkpoint = load_checkpoint(folder / directory / "checkpoints" / f"update_{UPDATES:08d}.npz")
    return [checkpoint.parameters, checkpoint.adam_m, checkpoint.adam_v]


def one_job(folder: Path, name: str, kinds: list[str], seed: int) -> tuple[Counter, dict]:
    """A job with strangers: what they did, and what became of the job."""
    job = start(folder, name)
    done = besiege(job, kinds, seed)
    said = job.communicate(timeout=300)[1].decode("utf-8", "replace")
    lines = [line for line in said.split("\n") if line.startswith(("minitransformer", "Traceback"))]
    if job.returncode == 0:
        pairs = zip(state(folder, name), state(folder, "undisturbed"), strict=True)
        equal = all(np.array_equal(one, other) for one, other in pairs)
    else:
        equal = False
    outcome = {"exit code": job.returncode, "messages": lines[:3], "bit for bit equal": equal}
    return done, outcome | {"processes left": at_work_in(folder)}


def prepare(folder: Path) -> None:
    (folder / "text").write_text("one two three\nfour five\nsix\n" * 40, encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    bpe = ["bpe", "train", "text", "-o", "bpe", "--vocab-size", "280"]
    command = [sys.executable, "-m", "minitransformer", *bpe]
    subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    undisturbed = start(folder, "undisturbed")
    assert undisturbed.wait(300) == 0, undisturbed.stderr.read().decode()


def summary(done: Counter, jobs: list[dict]) -> dict:
    return {
        "attempts in all": sum(n for (_, end), n in done.items() if end != "refused"),
        "strangers who were proven anything": sum(n for (_, end), n in done.items() if end == "PROVEN"),
        "jobs in all": len(jobs),
        "jobs that were disturbed": sum(job != UNDISTURBED for job in jobs),
        "attempts": {kind: {end: done[kind, end] for k, end in sorted(done) if k == kind} for kind in KINDS},
        "machine": machine_facts(),
        "jobs": jobs,
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.network", description=__doc__.split("\n")[0])
    parser.add_argument("--attempts", type=int, default=200, help="of every kind (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one job; writes no results")
    options = parser.parse_args(argv)
    if not Path("/proc/net/tcp").is_file():
        parser.error("needs /proc, as on Linux")
    path = RESULTS / "network.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() and not options.quick else {}
    done = Counter({(kind, end): n for kind, ends in result.get("attempts", {}).items() for end, n in ends.items()})
    jobs = result.get("jobs", [])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare(folder)
        while True:
            wanted = [kind for kind in KINDS for _ in range(options.attempts - done[kind, "closed"])]
            if not wanted or (options.quick and jobs):
                break
            seed = options.seed + len(jobs)
            random.Random(seed).shuffle(wanted)
            new, outcome = one_job(folder, f"job{len(jobs)}", wanted, seed)
            done += new
            jobs.append(outcome)
            result = summary(done, jobs)
            print(f"job {len(jobs)}: {outcome}, {sum(new.values())} strangers", flush=True)
            if not options.quick:
                RESULTS.mkdir(exist_ok=True)
                command = f"python -m tests.reliability.network --attempts {options.attempts} --seed {options.seed}"
                path.write_text(json.dumps({"command": command} | result, indent=1) + "\n", encoding="utf-8")
    good = not result["jobs that were disturbed"] and not result["strangers who were proven anything"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
