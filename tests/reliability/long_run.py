"""An hour of training and the translation of 100,000 lines of every kind; memory, open files and threads stay flat.

    python -m tests.reliability.long_run --stage train [--minutes 60]
    python -m tests.reliability.long_run --stage translate [--lines 100000]
    python -m tests.reliability.long_run --quick         both stages in half a minute; writes no results

Both stages run the command line in a process of its own, and sample it every second from /proc (Linux).

train: number words, two threads, metrics, a validation and a checkpoint every few seconds, until SIGTERM after
    --minutes. Memory, files and threads must stay flat (`watch.flatness`), the lines of metrics must be complete and
    in order, and the newest checkpoint must be that of the last update.
translate: uses the model of the first stage in --folder. The second half of the lines is the first in another order:
    tokenizers cache words, so only in the second half is growth of the memory a leak. The number of lines must be the
    same, empty where the input is blank or too long, with a message for each that is too long; --alone lines of all
    kinds must have the same translation in a process of their own. The number of correct number words is counted: if
    a line were lost, nearly all after it would be wrong. A line that is not UTF-8 must be reported by its number, and
    must not affect the others.

Results go to tests/reliability/results/long_run_STAGE.json and long_run.png.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from dataclasses import astuple
from itertools import zip_longest
from pathlib import Path

from benchmarks.common.machine import machine_facts
from examples.number_words import draw_numbers, english, german
from minitransformer.checkpoints import RunFolder, load_checkpoint
from minitransformer.training import read_metrics
from tests.reliability.long_run_figure import draw_stages
from tests.reliability.odd_lines import KINDS, draw_lines
from tests.reliability.watch import Sample, can_watch, flatness, watch

RESULTS = Path(__file__).parent / "results"
COMMAND = [sys.executable, "-m", "minitransformer"]
TRANSLATE = [*COMMAND, "translate", "--checkpoint", "mean.npz"]
GERMAN = {english(number): german(number) for number in range(1_000_000)}
CONFIG = """\
[model]
n_layers = 2
d_model = 64
d_ff = 256
n_heads = 4
p_drop = 0.1

[data]
train_src = "train.en"
train_tgt = "train.de"
valid_src = "valid.en"
valid_tgt = "valid.de"
tokenizer = "bpe"
src_tokens = 512
tgt_tokens = 512

[training]
directory = "run"
updates = 100000000
micro_batches = 2
threads = 2
warmup_steps = 500
lr_scale = 0.5
log_every = 20
validate_every = 200
save_every = 100

[translation]
beam_size = 2
"""


def prepare(folder: Path, pairs: int, seed: int) -> None:
    """Text files, tokenizer and config in ``folder``."""
    numbers = draw_numbers(pairs, seed)
    for name, part in (("valid", numbers[:500]), ("train", numbers[500:])):
        for language, spell in (("en", english), ("de", german)):
            (folder / f"{name}.{language}").write_text("".join(f"{spell(n)}\n" for n in part), encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    words = ["bpe", "train", "train.en", "train.de", "-o", "bpe", "--vocab-size", "400"]
    subprocess.run([*COMMAND, *words], cwd=folder, check=True, capture_output=True, timeout=300)


def train(folder: Path, seconds: float, every: float) -> tuple[list[Sample], dict]:
    """Train in ``folder`` for this time; returns the samples and the findings."""
    with open(folder / "train.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([*COMMAND, "train", "config.toml"], cwd=folder, stderr=log)
        samples = watch(process, every=every, ready=folder / "run" / "metrics.jsonl", seconds=seconds)
    checkpoints = RunFolder(folder / "run").paths()[-3:]
    average = [*COMMAND, "average", "--last", str(len(checkpoints)), "run", "-o", "mean.npz"]
    subprocess.run(average, cwd=folder, check=True, capture_output=True, timeout=60)
    lines = read_metrics(folder / "run" / "metrics.jsonl")
    updates = {kind: [line["update"] for line in lines if line["kind"] == kind] for kind in ("train", "valid")}
    last = load_checkpoint(checkpoints[-1]).update
    facts = {
        "updates": last,
        "checkpoints written": last // 100 + 1,
        "validations": len(updates["valid"]),
        "lines of metrics": len(lines),
        "valid nll, nats per token": [line["nll"] for line in lines if line["kind"] == "valid"][-1:],
        "exit code": process.returncode,
        "metrics in order": updates["train"] == list(range(20, last + 1, 20)),
        "log": (folder / "train.log").read_text(encoding="utf-8").split("\n")[-2][-100:],
    }
    facts["passed"] = facts["metrics in order"] and process.returncode == 128 + 15
    return samples, facts


def translate(folder: Path, text: bytes, every: float) -> tuple[list[Sample], list[str], list[str], int]:
    """Translate in one process: (samples, the output lines, the messages, the exit code)."""
    paths = [folder / name for name in ("in.txt", "out.txt", "messages.txt")]
    paths[0].write_bytes(text)
    with open(paths[0], "rb") as source, open(paths[1], "wb") as target, open(paths[2], "wb") as messages:
        process = subprocess.Popen(TRANSLATE, cwd=folder, stdin=source, stdout=target, stderr=messages)
        samples = watch(process, every=every)
    out, messages = (path.read_bytes().decode("utf-8").split("\n") for path in paths[1:])
    return samples, out, messages[:-1], process.returncode


def translated_alone(folder: Path, line: str) -> str:
    """The output of a process that translates this line alone."""
    text = f"{line}\n".encode()
    silent = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "timeout": 120, "check": False}
    return subprocess.run(TRANSLATE, cwd=folder, input=text, **silent).stdout.decode("utf-8")


def of_all_kinds(kinds: list[str], count: int, seed: int) -> list[int]:
    """Indices of ``count`` random lines, as many of each kind as of the others."""
    by_kind: dict[str, list[int]] = {}
    for index in random.Random(seed).sample(range(len(kinds)), len(kinds)):
        by_kind.setdefault(kinds[index], []).append(index)
    return [index for row in zip_longest(*by_kind.values()) for index in row if index is not None][:count]


def check_lines(lines: list[str], kinds: list[str], out: list[str], messages: list[str]) -> dict:
    """Statistics of the output lines, and whether they are as required."""
    pairs = list(zip(lines, out, strict=False))  # "lines out" shows missing lines
    long = [number for number, kind in enumerate(kinds, start=1) if kind == "too long"]
    named = [number for number, message in zip(long, messages, strict=False) if f" line {number} must " in message]
    must_be_empty = [kind == "too long" or not line.strip() for kind, line in zip(kinds, lines, strict=True)]
    silent = [found for found, empty in zip(out, must_be_empty, strict=False) if empty]
    facts = {
        "lines in": len(lines),
        "lines out": len(out),
        "lines of each kind": {kind: kinds.count(kind) for kind in KINDS},
        "blank or too long": len(silent),
        "of them with a translation": sum(map(bool, silent)),
        "too long": len(long),
        "of them reported by line number": len(named),
        "number words": sum(line.removesuffix("\r") in GERMAN for line in lines),
        "of them translated correctly": sum(GERMAN.get(line.removesuffix("\r")) == found for line, found in pairs),
    }
    passed = len(out) == len(lines) and named == long and len(messages) == len(long) and not any(silent)
    return facts | {"passed": passed}


def check_translation(folder: Path, count: int, seed: int, alone: int, every: float) -> tuple[list[Sample], dict]:
    """Translate ``count`` lines of every kind; returns the samples and the findings."""
    half, kinds = draw_lines(count // 2, seed)
    order = random.Random(seed).sample(range(len(half)), len(half))
    lines, kinds = ([*each, *(each[index] for index in order)] for each in (half, kinds))
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    began = time.monotonic()
    samples, out, messages, code = translate(folder, text, every)
    facts = {"seconds": round(time.monotonic() - began, 1), "exit code": code, "ends with a line feed": out.pop() == ""}
    facts |= check_lines(lines, kinds, out, messages)
    again = zip(order, out[len(half) :], strict=False)
    facts["lines whose two translations differ"] = sum(out[index] != other for index, other in again)
    chosen = [index for index in of_all_kinds(kinds, alone, seed + 1) if index < len(out)]
    same = [translated_alone(folder, lines[index]) == f"{out[index]}\n" for index in chosen]
    facts |= {"lines also translated alone": len(same), "of them with the same translation": sum(same)}
    facts["passed"] &= all(same) and facts["ends with a line feed"] and code == (2 if "too long" in kinds else 0)
    return samples, facts | check_invalid(folder, text, out, every)


def check_invalid(folder: Path, text: bytes, whole: list[str], every: float) -> dict:
    """A line that is not UTF-8 is reported by its number and translated as empty; all others are unchanged."""
    lines = text.split(b"\n")
    number = min(len(whole), 5000) // 2
    lines[number - 1] += b"\xff"
    _, out, messages, code = translate(folder, b"\n".join(lines), every)
    out.pop()
    expected = [*whole[: number - 1], "", *whole[number:]]
    named = any(f"standard input:{number}: must be UTF-8" in message for message in messages)
    return {"line that is not UTF-8": number, "other lines unchanged": code == 2 and named and out == expected}


def save(stage: str, samples: list[Sample], result: dict) -> None:
    """Write the result as JSON with about 400 of the samples, and the figure of the stages measured so far."""
    RESULTS.mkdir(exist_ok=True)
    thinned = samples[:: max(1, len(samples) // 400)]
    rows = ",\n  ".join(json.dumps([round(value, 2) for value in astuple(each)]) for each in thinned)
    head = json.dumps(result, indent=1, ensure_ascii=False).removesuffix("\n}")
    text = f'{head},\n "samples: seconds, MB, open files, threads": [\n  {rows}\n ]\n}}\n'
    (RESULTS / f"long_run_{stage}.json").write_text(text, encoding="utf-8")
    (RESULTS / "long_run.png").write_bytes(draw_stages(RESULTS))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.long_run", description=__doc__.split("\n")[0])
    parser.add_argument("--stage", choices=("train", "translate"), action="append", help="default: both")
    parser.add_argument("--minutes", type=float, default=60.0, help="of training (default 60)")
    parser.add_argument("--lines", type=int, default=100_000, help="to translate (default 100000)")
    parser.add_argument("--alone", type=int, default=70, help="lines translated again, alone (default 70)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/long_run"), help="default runs/long_run")
    parser.add_argument("--quick", action="store_true", help="5 s and 300 lines; writes no results")
    options = parser.parse_args(argv)
    if not can_watch():
        parser.error("needs /proc, as on Linux")
    minutes, count, alone, every = options.minutes, options.lines, options.alone, 1.0
    if options.quick:
        minutes, count, alone, every = 0.08, 300, 3, 0.1
    folder, good = options.folder.absolute(), True
    for stage in options.stage or ["train", "translate"]:
        facts = machine_facts() | {"seed": options.seed}
        if stage == "train":
            folder.mkdir(parents=True)
            prepare(folder, 5_000 if options.quick else 100_000, options.seed)
            samples, found = train(folder, 60 * minutes, every)
        else:
            samples, found = check_translation(folder, count, options.seed, alone, every)
        result = found | flatness(samples) | {"machine": facts}
        if not options.quick:
            command = f"python -m tests.reliability.long_run --stage {stage} --minutes {minutes:g} --lines {count}"
            save(stage, samples, {"command": command} | result)
        print(json.dumps(result, indent=1, ensure_ascii=False))
        good = (
            good
            and result["passed"]
            and result.get("other lines unchanged", True)
            and (options.quick or result["flat"])
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
