"""All measurements on a GPU in one command: correctness first, then speed and memory.

    python -m benchmarks.gpu [--quick] [--out FOLDER] [--data FOLDER] [--seconds N] [--stages NAME ...]
    python -m benchmarks.gpu --forecast        what an update should take, kernel by kernel; needs no GPU

Each stage runs in a process of its own, under a limit of time; what fails or takes too long is recorded and the
others still run. Results are saved after every stage, so none is lost when a machine is taken away. It needs CuPy
and, for the comparison, PyTorch; nothing is downloaded. On a machine without a GPU it says so and does nothing.

newstest, multi30k and tatoeba need the text that `minitransformer data get` downloads, in --data; newstest also needs
multi30k or tatoeba, to learn subwords from. A training that runs out of time resumes from its checkpoint in the next
call. Results of an earlier call in the folder are kept if commit, card and --quick are the same.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.machine import machine_facts
from benchmarks.common.tables import RESULTS, facts_list, markdown_head, markdown_row
from benchmarks.gpu.forecast import forecasts
from benchmarks.gpu.steps import Device
from minitransformer.backend import load_array_module
from minitransformer.cli.doctor import CHECKS
from minitransformer.cuda_diagnosis import cuda_trouble, driver_version
from minitransformer.files import write_atomically

LIMITS = {
    "correctness": 420,
    "ceilings": 60,
    "same loss": 60,
    "base": 150,
    "ops": 60,
    "epilogues": 60,
    "decoding": 90,
    "newstest": 400,
    "big": 120,
    "curves": 120,
    "base compiled": 240,
    "big compiled": 240,
    "nccl": 150,
    "multi30k": 540,
    "tatoeba": 540,
}
"""Seconds that each stage may take, in the order in which they run."""

COLUMNS = ("ms", "lowest", "highest", "host ms", "TFLOP/s", "of the ceiling", "target tokens/s")


def run_stage(name: str, quick: bool, limit: float, data: str | None = None) -> dict:
    """What the stage printed, or ``failed`` with the reason; always ``seconds``."""
    command = [sys.executable, "-m", "benchmarks.gpu.stages", name, "--seconds", str(limit)]
    command += [*(["--quick"] if quick else []), *(["--data", str(Path(data).resolve())] if data else [])]
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=limit)
        result = json.loads(output.strip().split("\n")[-1])
    except subprocess.TimeoutExpired:
        _end(process)
        result = {"failed": f"not done after {limit:.0f} seconds"}
    except ValueError:
        result = {"failed": f"exit status {process.returncode}", "end": errors.strip().split("\n")[-25:]}
    finally:
        _end(process)
    return result | {"seconds": round(time.monotonic() - began, 1)}


def _end(process: subprocess.Popen) -> None:
    """The stage and whatever it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def gpu_facts() -> dict:
    """The machine, with card, driver and CuPy."""
    import cupy

    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found = {name: CHECKS[name]()[0] for name in ("CuPy", "driver", "cuBLASLt", "NCCL")}
    return machine_facts() | {"card": card} | found


def markdown(facts: dict, stages: dict[str, dict]) -> str:
    lines = ["# On a GPU", "", "`python -m benchmarks.gpu`", ""]
    lines += [
        "Milliseconds of an update of 1,000 sentences of 25 + 25 tokens, dropout and Adam included; the ceiling is"
    ]
    lines += ["that of one large matrix product on the same card.", ""]
    ceilings = stages.get("ceilings", {})
    lines += markdown_head(["", *COLUMNS])
    for name in ("base", "base compiled", "big", "big compiled"):
        for precision, entry in stages.get(name, {}).items():
            if isinstance(entry, dict):
                lines += _rows(f"{name}, {precision}", entry, ceilings.get(f"{precision} TFLOP/s"))
    lines += ["", "| stage | outcome | seconds |", "| --- | --- | --- |"]
    lines += [markdown_row([name, _outcome(result), str(result.get("seconds", ""))]) for name, result in stages.items()]
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def _rows(what: str, entry: dict, ceiling: float | None) -> list[str]:
    rows = []
    for who, values in entry.items():
        if isinstance(values, dict) and "device ms" in values:
            times = values["device ms"]
            share = f"{values['TFLOP/s'] / ceiling:.2f}" if ceiling else ""
            cells = [f"{times[each]:.2f}" for each in ("median", "lowest", "highest")]
            cells += [f"{values['host ms']['median']:.2f}", f"{values['TFLOP/s']:.1f}", share]
            rows.append(markdown_row([f"{what}: {who}", *cells, f"{values['target tokens/s']:,.0f}"]))
    return rows


def _outcome(result: dict) -> str:
    for key in ("failed", "left out"):
        if key in result:
            return f"{key}: {result[key]}"
    if "exit status" in result:
        return f"exit status {result['exit status']}: {' '.join(result['end'][-7:]).strip()[:200]}"
    if "ours" in result and isinstance(result["ours"], dict) and "sentences/s" in result["ours"]:
        others = {name: each["sentences/s"] for name, each in result.items() if isinstance(each, dict)}
        return ", ".join(f"{name} {speed:.1f} sentences/s" for name, speed in others.items())
    if "of" in result and "updates" in result:
        score = f"{result['BLEU']:.2f} sacreBLEU" if "BLEU" in result else f"unfinished: {result.get('left to do')}"
        return f"{score} after {result['updates']} updates in {result['minutes']:.1f} minutes"
    timed = {name: each["update ms"] for name, each in result.items() if isinstance(each, dict) and "update ms" in each}
    if timed:
        return ", ".join(
            f"{name} {each['with']['median']:.2f} ms an update, without {each['without']['median']:.2f}"
            for name, each in timed.items()
        )
    if "seeds" in result:
        judged = {name: each for name, each in result.items() if isinstance(each, dict)}
        return ", ".join(
            f"{name} in {each['within_interval']} of {each['of']} windows" for name, each in judged.items()
        )
    if "relative difference" in result:
        return f"relative difference {result['relative difference']:.1e}"
    return "done"


def save(folder: Path, facts: dict, stages: dict[str, dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"gpu.json": json.dumps({"machine": facts, "stages": stages}, indent=1) + "\n"}
    texts["gpu.md"] = markdown(facts, stages)
    for name, text in texts.items():
        write_atomically(folder / name, lambda file, text=text: file.write(text.encode("utf-8")))


def earlier(folder: Path | None, facts: dict, mark: dict) -> dict[str, dict]:
    """The stages that a call before this one has left in the folder, of the same commit without changes.

    mark: what else must be the same, as it is saved with each stage: the card, and whether sizes were small
    """
    path = folder / "gpu.json" if folder else None
    commit = facts["commit"]
    if path is None or not path.is_file() or commit == "unknown" or commit.endswith("+ changes"):
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["machine"].get("commit") != commit:
        return {}
    return {name: stage for name, stage in found["stages"].items() if mark.items() <= stage.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; saves only with --out")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"where results go (default: {RESULTS.name})")
    named = os.environ.get("MINITRANSFORMER_DATA")
    parser.add_argument(
        "--data", metavar="FOLDER", default=named, help="text (default: what MINITRANSFORMER_DATA names)"
    )
    parser.add_argument("--seconds", type=float, default=1500, metavar="N", help="for all stages (default: 1500)")
    parser.add_argument("--stages", nargs="+", choices=LIMITS, default=list(LIMITS), help="default: all, in this order")
    parser.add_argument("--commit", help="the commit, where git cannot tell it (default: ask git)")
    parser.add_argument("--forecast", action="store_true", help="print what an update should take")
    options = parser.parse_args(argv)
    trouble = "there is no NVIDIA driver" if driver_version() == 0 else cuda_trouble()
    if options.forecast:
        print(forecasts(None if trouble else Device(load_array_module("cuda"), "cpu")))
        return 0
    if trouble:
        print(f"benchmarks.gpu: nothing was measured: {trouble}")
        return 0
    facts = gpu_facts() | ({"commit": options.commit} if options.commit else {})
    folder = options.out or (None if options.quick else RESULTS)
    mark = {"quick": options.quick, "card": facts["card"]}
    stages = earlier(folder, facts, mark)
    end = time.monotonic() + options.seconds
    for name in options.stages:
        left = end - time.monotonic()
        if left < 5:
            stages.setdefault(name, {"left out": "the time is used up"} | mark)
        else:
            stages[name] = run_stage(name, options.quick, min(left, LIMITS[name]), options.data) | mark
        print(f"{name}: {_outcome(stages[name])}", flush=True)
        if folder:
            save(folder, facts, stages)
    print(markdown(facts, stages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
