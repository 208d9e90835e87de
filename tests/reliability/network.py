"""Attack the ports of running jobs at random moments; their results must stay equal bit for bit.

    python -m tests.reliability.network [--attempts 200] [--seed 1]
    python -m tests.reliability.network --quick          one job, writes no results

A job is `minitransformer launch -n 2 -- train`, with the TCP communicator. Threads that do not know its token find its
listening ports in /proc as soon as they are open, and attack them in every way of `attacks.KINDS`, --attempts times
each over several jobs. Every job must exit with 0 and print no message, its last checkpoint must equal that of a job
that is not attacked bit for bit, no process may be left, and no client may be authenticated. Writes
tests/reliability/results/network.json after each job; the same command continues from there.
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

from benchmarks.common.machine import machine_facts
from minitransformer.checkpoints import load_checkpoint
from tests.reliability.attacks import KINDS, attack, listening_ports, processes_in

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


UNAFFECTED = {"exit code": 0, "messages": [], "bit for bit equal": True, "processes left": 0}
"""The outcome of a job that is not attacked, and the required outcome of one that is."""


def start(folder: Path, directory: str) -> subprocess.Popen:
    """Start a job that trains in ``directory`` of ``folder``."""
    train = ["train", "config.toml", "--set", f'training.directory="{directory}"']
    command = [sys.executable, "-m", "minitransformer", "launch", "-n", "2", "--", *train]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    env.pop("MINITRANSFORMER_TOKEN", None)
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def attack_job(job: subprocess.Popen, kinds: list[str], seed: int, clients: int = 6) -> Counter:
    """Carry out attacks of these kinds while the job runs; returns how often each (kind, outcome) occurred."""
    done, rest, lock = Counter(), list(kinds), threading.Lock()

    def client(number: int) -> None:
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
            outcome = attack(kind, rng.choice(ports), rng)
            with lock:
                done[kind, outcome] += 1
                if outcome == "refused":
                    rest.insert(0, kind)
            time.sleep(rng.uniform(0, 0.1))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def state(folder: Path, directory: str) -> list[np.ndarray]:
    checkpoint = load_checkpoint(folder / directory / "checkpoints" / f"update_{UPDATES:08d}.npz")
    return [checkpoint.parameters, checkpoint.adam_m, checkpoint.adam_v]


def one_job(folder: Path, name: str, kinds: list[str], seed: int) -> tuple[Counter, dict]:
    """One attacked job: the attacks, and the outcome of the job."""
    job = start(folder, name)
    done = attack_job(job, kinds, seed)
    output = job.communicate(timeout=300)[1].decode("utf-8", "replace")
    lines = [line for line in output.split("\n") if line.startswith(("minitransformer", "Traceback"))]
    if job.returncode == 0:
        pairs = zip(state(folder, name), state(folder, "not_attacked"), strict=True)
        equal = all(np.array_equal(one, other) for one, other in pairs)
    else:
        equal = False
    outcome = {"exit code": job.returncode, "messages": lines[:3], "bit for bit equal": equal}
    return done, outcome | {"processes left": processes_in(folder)}


def prepare(folder: Path) -> None:
    (folder / "text").write_text("one two three\nfour five\nsix\n" * 40, encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    bpe = ["bpe", "train", "text", "-o", "bpe", "--vocab-size", "280"]
    command = [sys.executable, "-m", "minitransformer", *bpe]
    subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    job = start(folder, "not_attacked")
    assert job.wait(300) == 0, job.stderr.read().decode()


def summary(done: Counter, jobs: list[dict]) -> dict:
    attempts = {kind: {outcome: n for (each, outcome), n in sorted(done.items()) if each == kind} for kind in KINDS}
    return {
        "attempts in all": sum(n for (_, outcome), n in done.items() if outcome != "refused"),
        "clients authenticated": sum(n for (_, outcome), n in done.items() if outcome == "authenticated"),
        "jobs in all": len(jobs),
        "jobs affected": sum(job != UNAFFECTED for job in jobs),
        "attempts": attempts,
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
    attempts = result.get("attempts", {})
    done = Counter({(kind, outcome): n for kind, counts in attempts.items() for outcome, n in counts.items()})
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
            print(f"job {len(jobs)}: {outcome}, {sum(new.values())} attacks", flush=True)
            if not options.quick:
                RESULTS.mkdir(exist_ok=True)
                command = f"python -m tests.reliability.network --attempts {options.attempts} --seed {options.seed}"
                path.write_text(json.dumps({"command": command} | result, indent=1) + "\n", encoding="utf-8")
    return int(bool(result["jobs affected"] or result["clients authenticated"]))


if __name__ == "__main__":
    sys.exit(main())
