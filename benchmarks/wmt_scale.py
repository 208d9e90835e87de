"""A rehearsal of WMT 2014 en-de: the commands of examples/wmt14/README.md from text to BLEU, on a corpus of that size.

    python -m benchmarks.wmt_scale [--quick]

The corpus has 4.5 million pairs, 1.3 GB, words drawn from a Zipf law, more than two million distinct ones in the text
and about a third of them seen once. The first command of each kind is read from the page, without downloads and
ablation; to the training is added that it saves every second update, logs every one and ends after 20, and after ten it
is killed. Memory is what a command and its children hold at the worst moment, each counted
whole. The test sets are 100 lines of newstest where MINITRANSFORMER_DATA has them. --quick makes 4,000 pairs and a
small model.

Results go to benchmarks/results/wmt_scale.json and .md; --quick writes nothing.
"""

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from benchmarks.common.machine import machine_facts
from benchmarks.common.real_text import CORPORA, padding_shares
from benchmarks.common.synthetic_text import SYLLABLES, make_corpus
from benchmarks.common.tables import facts_list, markdown_head, markdown_row, save_results
from minitransformer.training import read_metrics

PAIRS = 4_500_000
VOCABULARY, QUICK_VOCABULARY = 2_400_000, 560
"""Words that may be drawn; subwords with --quick, where the page has 37,000."""
TOKENS = 25_000
UPDATES, TEST_LINES = 20, 100
SMALL = "model.d_model=32 model.d_ff=64 model.n_layers=1 data.src_tokens=400 data.tgt_tokens=400".split()
README = Path(__file__).parents[1] / "examples/wmt14/README.md"
PAGE = f"""\
[examples/wmt14](../../examples/wmt14/README.md), the first of each kind, without downloads and ablation; the training
saves every second update, has {UPDATES} updates and is killed after half of them.
"""


@dataclass(frozen=True)
class Stage:
    """What a stage took: seconds, bytes of memory at the worst moment, and bytes that it added to the disk."""

    name: str
    seconds: float
    peak_bytes: int
    disk_bytes: int


def measure(name: str, command: str, folder: Path, kill_when: Path | None = None) -> Stage:
    """Run a command line in ``folder``, and watch the memory of it and all its children and what it adds to the disk.

    kill_when: the file at whose sight the command and its children are killed
    """
    print(f"wmt_scale: {name}: {command}", file=sys.stderr)
    began, peak, disk = time.perf_counter(), 0, _disk_bytes(folder)
    program = f'minitransformer() {{ "{sys.executable}" -m minitransformer "$@"; }}; '
    with open(folder / "log.txt", "a") as log:
        process = subprocess.Popen(
            ["bash", "-c", program + command], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        while process.poll() is None:
            peak = max(peak, sum(map(_resident_bytes, _family(process.pid))))
            if kill_when is not None and kill_when.exists():
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(0.05)
    if process.returncode != (0 if kill_when is None else -signal.SIGKILL):
        raise SystemExit(f"wmt_scale: {name} failed:\n{(folder / 'log.txt').read_text()}")
    return Stage(name, time.perf_counter() - began, peak, _disk_bytes(folder) - disk)


def _disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _family(pid: int) -> list[int]:
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(child))]


def _words(path: Path) -> list[str]:
    return path.read_text().split()


def _resident_bytes(pid: int) -> int:
    try:
        return int(_words(Path(f"/proc/{pid}/statm"))[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # it has just ended
        return 0


def readme_commands() -> list[str]:
    """The commands of examples/wmt14/README.md, each in one line, with the variables of its block before it."""
    text = README.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = []
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        lines = [re.sub(r" +#.*", "", line) for line in block.splitlines()]
        variables = "; ".join(line for line in lines if re.match(r"[A-Z]=", line)) or "D=data/wmt14-en-de"
        commands += [f"{variables}; {re.sub(' +', ' ', line)}" for line in lines if line.startswith("minitransformer ")]
    return commands


def command_of(verb: str) -> str:
    """The first command of the page that begins with ``minitransformer VERB``."""
    return next(command for command in readme_commands() if f"; minitransformer {verb} " in command)


def lay_out(folder: Path, newstest: Path | None) -> None:
    """Put the corpus, the recipe and 100 lines of each test set where the page expects them.

    newstest: a folder with the real sets; None: lines of the corpus stand for them
    """
    data, tests = folder / "data/wmt14-en-de", folder / "data/newstest"
    data.mkdir(parents=True)
    tests.mkdir()
    (folder / "examples").symlink_to(README.parents[1])
    for side in SYLLABLES:
        for year in ("2013", "2014"):
            name = f"newstest{year}.en-de.{side}"
            source = newstest / name if newstest else folder / f"made.{side}"
            with source.open(encoding="utf-8") as file:
                (tests / name).write_text("".join(islice(file, TEST_LINES)), encoding="utf-8")
        # Three files in the place of Europarl, Common Crawl and News Commentary: most, some and a few of the lines.
        names = [data / f"{corpus}.{side}" for corpus in ("europarl-v7", "commoncrawl", "news-commentary-v9")]
        shares = itertools.cycle([0] * 6 + [1] * 3 + [2])
        with ExitStack() as stack:
            made = stack.enter_context((folder / f"made.{side}").open(encoding="utf-8"))
            files = [stack.enter_context(name.open("w", encoding="utf-8")) for name in names]
            for line in made:
                files[next(shares)].write(line)
        (folder / f"made.{side}").unlink()


def rehearse(folder: Path, quick: bool) -> list[Stage]:
    """The commands of the page from cleaning to BLEU; the training is killed after half of its 20 updates."""
    run, half = folder / "runs/wmt14-en-de-base", UPDATES // 2
    short = f"training.updates={UPDATES} training.save_every=2 training.log_every=1".split()
    settings = "".join(f" --set {each}" for each in (*short, *(SMALL if quick else ())))
    train, bpe = command_of("train") + settings, command_of("bpe train")
    stages = [
        measure("clean", command_of("clean"), folder),
        measure("bpe train", bpe.replace("size 37000", f"size {QUICK_VOCABULARY}") if quick else bpe, folder),
        measure("binarise", command_of("binarise"), folder),
        measure("plan", command_of("plan"), folder),
        measure(f"train, killed after {half} updates", train, folder, run / f"checkpoints/update_{half:08}.npz"),
        measure("train, resumed", train, folder),
        measure("average", command_of("average"), folder),
        measure(f"evaluate, {TEST_LINES} sentences", command_of("evaluate"), folder),
    ]
    updates = [line["update"] for line in read_metrics(run / "metrics.jsonl") if line["kind"] == "train"]
    if updates != list(range(1, UPDATES + 1)):
        raise SystemExit(f"wmt_scale: each update must be there once after the kill, got {updates}")
    return stages


def opening(folder: Path) -> dict[str, float]:
    """What opening the ids for training takes: seconds, bytes of memory; and the seconds to the first batch."""
    run = subprocess.run([sys.executable, "-c", OPEN], cwd=folder, capture_output=True, text=True, check=True)
    seconds, kilobytes, batch, batches = run.stdout.split()
    found = {"seconds": float(seconds), "peak_bytes": 1024 * int(kilobytes), "first batch, seconds": float(batch)}
    return found | {"batches in an epoch": int(batches)}


OPEN = f"""
import time
from minitransformer.text import BatchStream, Tokenizer
from minitransformer.training import Corpus
began = time.perf_counter()
corpus = Corpus.from_binary(Tokenizer.load("data/wmt14-en-de/bpe.37000"), "data/wmt14-en-de/train")
stream = BatchStream(*corpus.train, src_tokens={TOKENS}, tgt_tokens={TOKENS}, seed=1)
opened = time.perf_counter()
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
batch = stream.batch(0)
print(opened - began, peak, time.perf_counter() - opened, stream.batches_per_epoch)
"""


def markdown(facts: dict, text: str, stages: list[Stage], opened: dict, padding: dict) -> str:
    lines = ["# A rehearsal of WMT 2014 en-de", "", f"{text}. The commands are read from", PAGE]
    lines += ["`python -m benchmarks.wmt_scale`", ""]
    lines += markdown_head(["stage", "seconds", "peak memory, GB", "added to the disk, GB"])
    for stage in stages:
        figures = [f"{stage.seconds:,.1f}", f"{stage.peak_bytes / 1e9:.2f}", f"{stage.disk_bytes / 1e9:.2f}"]
        lines.append(markdown_row([stage.name, *figures]))
    lines += [
        "",
        f"Opening the ids for training takes {opened['seconds']:.2f} s after the imports and "
        f"{opened['peak_bytes'] / 1e6:.0f} MB with them; the first batch, for which the first epoch is shuffled, "
        f"{opened['first batch, seconds']:.2f} s more.",
    ]
    if padding:
        shares = ", ".join(f"{share:.1%} at {tokens} tokens" for tokens, share in padding.items())
        lines += ["", f"Padding in batches of real text ({', '.join(CORPORA)}): {shares}."]
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wmt_scale", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small corpus and model, and no results are written")
    quick = parser.parse_args(argv).quick
    facts = machine_facts()
    data = os.environ.get("MINITRANSFORMER_DATA")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = make_corpus(folder, *((4000, 20_000) if quick else (PAIRS, VOCABULARY)))
        lay_out(folder, Path(data) / "newstest" if data else None)
        stages, opened = rehearse(folder, quick), opening(folder)
    padding = padding_shares(Path(data), (3400, TOKENS)) if data and not quick else {}
    table = markdown(facts, text, stages, opened, padding)
    print(table)
    if not quick:
        result = {"machine": facts, "text": text, "stages": [asdict(stage) for stage in stages]}
        save_results("wmt_scale", result | {"opening": opened, "padding": padding}, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
