"""A rehearsal of WMT 2014: every command of examples/wmt14/README.md, from text to BLEU, on corpora of that size.

    python -m benchmarks.wmt_scale [--short | --quick] [--folder FOLDER]

The commands are read from the page and run in its order, as they stand there. Each download is replaced by synthetic
files of the same names: 4.5 million pairs, words drawn from a Zipf law, more than two million distinct ones in the
text and about a third of them seen once. The test sets are the first lines of newstest where MINITRANSFORMER_DATA has
them. Since there is neither a GPU nor the time for whole trainings, these get `--set`s (`settings_of`); the first one
is killed when half of its updates are saved, and resumed.

--short has less text, trains less and translates fewer lines; --quick has 4,000 pairs and small models. With --folder
files and figures stay there, and the same call continues where it was interrupted.

Results of --short are called wmt_scale_short.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from itertools import cycle, islice, product
from pathlib import Path
from typing import TextIO

from benchmarks.common.command_cost import Cost, cost_of
from benchmarks.common.page_commands import page_commands, short_name
from benchmarks.common.real_text import CORPORA, padding_shares
from benchmarks.common.synthetic_text import make_corpus
from benchmarks.common.tables import save_results
from examples.data import find
from examples.report import facts_list, machine_facts, markdown_table, of_this_maker, page
from minitransformer.config import Config
from minitransformer.files import write_text
from minitransformer.training import read_metrics

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "examples/wmt14/README.md"
FIRST_TRAINING = "minitransformer train examples/wmt14/en-de-base.toml"
TOKENS = 25_000
LANGUAGES = ("de", "fr")
SHARES = (6, 3, 1, 1, 1)
"""Of the lines, in each file of a training set: most, some and a few."""
ABOUT = "about.txt"


@dataclass(frozen=True)
class Size:
    """Pairs of each corpus, words that may be drawn, updates of the first training, lines of the test sets.

    settings: of all trainings   rest: of all but the first training   vocab_size: instead of the page's, if not 0
    """

    pairs: int = 4_500_000
    words: int = 2_400_000
    updates: int = 20
    lines: int = 100
    settings: tuple[str, ...] = ()
    rest: tuple[str, ...] = ("training.updates=5", "data.src_tokens=256", "data.tgt_tokens=256")
    vocab_size: int = 0


FULL = Size()
SHORT = Size(300_000, updates=5, lines=10, settings=FULL.rest)
MODEL = ("model.d_model=32", "model.d_ff=64", "model.n_layers=1")
QUICK = Size(4000, 20_000, 5, 20, (*MODEL, *FULL.rest), vocab_size=560)


def settings_of(command: str, size: Size) -> list[str]:
    """What is added to a training: fewer updates, each logged and saved, and what a machine without a GPU needs."""
    recipe = re.search(r"\btrain (\S+\.toml)", command)
    if recipe is None:
        return []
    settings = [f"training.updates={size.updates}", "training.log_every=1", "training.save_every=1", *size.settings]
    if command != FIRST_TRAINING:
        settings += size.rest
    if Config.load(ROOT / recipe[1]).execution.precision != "float32":
        settings.append("execution.precision=float32")  # half precision needs a GPU
    if "launch" in command:  # to the page another way of the same training
        settings.append("training.directory=runs/launch")
    return [f"{key}={value}" for key, value in dict(each.split("=") for each in settings).items()]


def as_run(command: str, size: Size) -> str:
    """The command with what is added to it."""
    if size.vocab_size:
        command = re.sub(r"--vocab-size \d+", f"--vocab-size {size.vocab_size}", command)
    return command + "".join(f" --set {each}" for each in settings_of(command, size))


def make_training_text(into: Path, language: str, size: Size) -> None:
    """The files that ``data get wmt14-en-LANGUAGE`` downloads, synthetic, and about.txt, which says what they are."""
    names = [file.name for file in find(into.name).files]
    about = make_corpus(into, size.pairs, size.words, language)
    (into / ABOUT).write_text(f"en-{language}: {about}", encoding="utf-8")
    for side in ("en", language):
        made = into / f"made.{side}"
        with ExitStack() as stack:
            parts = [stack.enter_context(_open(into / name, "w")) for name in names if name.endswith(f".{side}")]
            turns = cycle([part for part, share in zip(parts, SHARES, strict=False) for _ in range(share)])
            for line, part in zip(stack.enter_context(_open(made, "r")), turns, strict=False):
                part.write(line)
        made.unlink()


def _open(path: Path, mode: str) -> TextIO:
    return path.open(mode, encoding="utf-8")


def make_test_sets(into: Path, newstest: Path | None, size: Size) -> None:
    """The first lines of the files that ``data get newstest`` downloads.   newstest: where they are; None: synthetic"""
    for language in LANGUAGES:
        if newstest is None:
            make_corpus(into, size.lines, 1000, language)
        for year, side in product(("2013", "2014"), ("en", language)):
            name = f"newstest{year}.en-{language}.{side}"
            with _open(into / f"made.{side}" if newstest is None else newstest / name, "r") as file:
                (into / name).write_text("".join(islice(file, size.lines)), encoding="utf-8")


def replace_download(command: str, folder: Path, size: Size) -> None:
    """Put there what ``data get NAME --to data`` would download."""
    name = command.split()[4]
    into, data = folder / "data" / name, os.environ.get("MINITRANSFORMER_DATA")
    into.mkdir(parents=True, exist_ok=True)
    if name == "newstest":
        make_test_sets(into, Path(data) / name if data else None, size)
    else:
        make_training_text(into, name[-2:], size)


def rehearse(folder: Path, size: Size, commands: Sequence[str]) -> dict[str, Cost]:
    """Run the page's commands in ``folder``; the cost of each is kept there, and those that have already run are
    skipped."""
    kept = folder / "costs.json"
    costs = {name: Cost(**cost) for name, cost in json.loads(kept.read_text()).items()} if kept.exists() else {}
    run, half = folder / "runs/wmt14-en-de-base", size.updates // 2
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(PAGE.parents[1])

    def once(name: str, command: str, kill_when: Path | None = None) -> None:
        if name in costs:
            return
        print(f"wmt_scale: {name}: {command}", file=sys.stderr, flush=True)
        if command.startswith("python -m examples.data get "):
            replace_download(command, folder, size)
            costs[name] = Cost(0, 0, 0)
        else:
            costs[name] = cost_of(command, folder, kill_when)
        write_text(kept, json.dumps({name: asdict(cost) for name, cost in costs.items()}))

    for command in commands:
        name, line = short_name(command), as_run(command, size)
        if command == FIRST_TRAINING:
            once(f"{name}, killed after {half} updates", line, run / f"checkpoints/update_{half:08}.npz")
            name += f", resumed to {size.updates}"
        once(name, line)
    updates = [line["update"] for line in read_metrics(run / "metrics.jsonl") if line["kind"] == "train"]
    if updates != list(range(1, size.updates + 1)):
        raise SystemExit(f"wmt_scale: each update must be there once after the kill, got {updates}")
    return {name: cost for name, cost in costs.items() if not name.startswith("data get")}


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


def markdown(facts: dict, size: Size, texts: Sequence[str], costs: dict[str, Cost], opened: dict, padding: dict) -> str:
    option = " --short" if size == SHORT else ""
    first, rest = " ".join(settings_of(FIRST_TRAINING, size)), " ".join(size.rest)
    sizes = [*texts, f"first training: `{first}`; others: `{rest}`", f"test sets: {size.lines} lines of newstest"]
    rows = [
        [name, f"{cost.seconds:,.1f}", f"{cost.peak_bytes / 1e9:.2f}", f"{cost.disk_bytes / 1e9:.2f}"]
        for name, cost in costs.items()
    ]
    shares = ", ".join(f"{share:.1%} at {tokens} tokens" for tokens, share in padding.items())
    return page(
        "# A rehearsal of WMT 2014",
        f"`python -m benchmarks.wmt_scale{option}`",
        ABOUT_RUN,
        "\n".join(f"- {text}" for text in sizes),
        markdown_table(["command", "seconds", "peak memory, GB", "added to the disk, GB"], rows),
        f"Opening the ids for training takes {opened['seconds']:.2f} s after the imports and "
        f"{opened['peak_bytes'] / 1e6:.0f} MB with them; the first batch, for which the first epoch is shuffled, "
        f"{opened['first batch, seconds']:.2f} s more.",
        f"Padding in batches of real text ({', '.join(CORPORA)}): {shares}." if shares else "",
        facts_list(facts),
    )


ABOUT_RUN = """Every command of [examples/wmt14](../../examples/wmt14/README.md), read from the page and run in its
order as it stands there, with these differences: downloads are replaced by synthetic files of the same names;
trainings log and save every update and end early, and are in float32, since there is no GPU; that of eight ranks has a
folder of its own; the first training is killed when half of its updates are saved, and resumed."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wmt_scale", description=__doc__.split("\n")[0])
    parser.add_argument("--short", action="store_true", help="less text, short trainings, and fewer lines to translate")
    parser.add_argument("--quick", action="store_true", help="a small corpus and model, and no results are written")
    parser.add_argument("--folder", type=Path, help="where it runs, and continues (default: a temporary one)")
    options = parser.parse_args(argv)
    facts, size = machine_facts(), QUICK if options.quick else SHORT if options.short else FULL
    with tempfile.TemporaryDirectory() if options.folder is None else nullcontext(options.folder) as name:
        folder = Path(name)
        folder.mkdir(exist_ok=True)
        costs, opened = rehearse(folder, size, page_commands(PAGE.read_text(encoding="utf-8"))), opening(folder)
        texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"data/*/{ABOUT}"))]
    data = os.environ.get("MINITRANSFORMER_DATA")
    padding = padding_shares(Path(data), (3400, TOKENS)) if data and not options.quick else {}
    table = markdown(facts, size, texts, costs, opened, padding)
    print(table)
    if not options.quick:
        stages = [{"name": name, **asdict(cost)} for name, cost in costs.items()]
        result = {"machine": facts, "size": asdict(size), "texts": texts, "stages": stages}
        name = of_this_maker("wmt_scale_short" if options.short else "wmt_scale")
        save_results(name, result | {"opening": opened, "padding": padding}, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
