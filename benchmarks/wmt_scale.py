"""The text pipeline at the size of WMT 2014 en-de: clean, learn BPE, binarise, open for training.

    python -m benchmarks.wmt_scale [--quick]

The corpus is synthetic: 4.5 million pairs, 1.3 GB, words drawn from a Zipf law, more than two million distinct ones in
the text and about a third of them seen once. Each stage is the command that a user types, as a process of its own;
memory is what it and its children hold at the worst moment, each counted whole. How much of a batch is padding is
measured on real text (MINITRANSFORMER_DATA). --quick makes 4,000 pairs.

Results go to benchmarks/results/wmt_scale.json and .md; --quick writes nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benchmarks.common.machine import machine_facts
from benchmarks.common.real_text import CORPORA, real_pairs
from benchmarks.common.tables import facts_list, markdown_head, markdown_row, save_results
from minitransformer.text import BatchStream, Tokenizer, encode_parallel

PAIRS = 4_500_000
WORDS_A_LINE = 33
VOCABULARY = 2_400_000
EXPONENT = 1.25
"""Of 150 million words drawn for each side, 1.76 million distinct ones are expected, a third of them once."""
AT_A_TIME = 50_000
MERGES = 37_000
TOKENS = 25_000
SYLLABLES = {
    "en": [c + v for c in "bdfghklmnprst" for v in ("a", "e", "i", "o", "u", "ar", "er")],
    "de": [c + v for c in ("b", "d", "f", "g", "h", "k", "l", "m", "n", "r", "s", "sch", "z") for v in "aeiouäü"],
}


@dataclass(frozen=True)
class Stage:
    """What a stage took: seconds, and bytes of memory at the worst moment."""

    name: str
    seconds: float
    peak_bytes: int


def make_corpus(folder: Path, pairs: int, vocabulary: int) -> str:
    """``made.en`` and ``made.de`` in ``folder``; returns what they are. One pair in a hundred is there twice."""
    rng = np.random.default_rng(1)
    shares = 1.0 / (np.arange(vocabulary) + 2.7) ** EXPONENT
    limits = np.cumsum(shares / shares.sum())
    seen, sizes = {side: np.zeros(vocabulary, dtype=np.int64) for side in SYLLABLES}, {}
    words = {side: _spell(np.arange(vocabulary), SYLLABLES[side]) for side in SYLLABLES}
    files = {side: (folder / f"made.{side}").open("w", encoding="utf-8") for side in SYLLABLES}
    for start in tqdm(range(0, pairs, AT_A_TIME), desc="corpus", unit="part"):
        count = min(AT_A_TIME, pairs - start)
        lengths = np.clip(rng.gamma(3.0, WORDS_A_LINE / 3, count).astype(int), 2, 120)
        repeated = rng.random(count) < 0.01
        for side, file in files.items():
            own = np.maximum(lengths + rng.integers(-1, 2, count), 1)
            ranks = np.searchsorted(limits, rng.random(int(own.sum())))
            np.add.at(seen[side], ranks, 1)
            ends = np.cumsum(own).tolist()
            drawn = words[side][ranks].tolist()
            lines = [" ".join(drawn[end - n : end]) + "." for end, n in zip(ends, own.tolist(), strict=True)]
            doubled = zip(lines, repeated.tolist(), strict=True)
            file.write("".join(f"{line}\n{line}\n" if twice else f"{line}\n" for line, twice in doubled))
    for side, file in files.items():
        file.close()
        sizes[side] = (folder / f"made.{side}").stat().st_size
    _, inverse = np.unique(np.concatenate([words[side][seen[side] > 0] for side in seen]), return_inverse=True)
    counts = np.bincount(inverse, np.concatenate([each[each > 0] for each in seen.values()]))
    return (
        f"{pairs:,} synthetic pairs and 1 % of them twice, {sum(sizes.values()) / 1e9:.2f} GB, "
        f"{len(counts):,} distinct words, {np.mean(counts == 1):.0%} of them drawn once"
    )


def _spell(numbers: np.ndarray, syllables: list[str]) -> np.ndarray:
    """A word of its own for each number, short for small ones: its digits, written as syllables."""
    table, words = np.array(syllables, dtype=object), np.full(len(numbers), "", dtype=object)
    left = numbers + 1
    while (open_ := left > 0).any():
        left[open_] -= 1
        words[open_] = table[left[open_] % len(table)] + words[open_]
        left[open_] //= len(table)
    return words


def measure(name: str, command: Sequence[str], folder: Path) -> Stage:
    """Run a command in ``folder`` and watch the memory of it and all its children."""
    began, peak = time.perf_counter(), 0
    with open(folder / "log.txt", "a") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        while process.poll() is None:
            peak = max(peak, sum(map(_resident_bytes, _family(process.pid))))
            time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"wmt_scale: {name} failed:\n{(folder / 'log.txt').read_text()}")
    return Stage(name, time.perf_counter() - began, peak)


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


OPEN = """
import time
began = time.perf_counter()
from minitransformer.text import BatchStream, Tokenizer
from minitransformer.training import Corpus
imported = time.perf_counter()
corpus = Corpus.from_binary(Tokenizer.load("bpe"), "ids")
stream = BatchStream(*corpus.train, src_tokens={tokens}, tgt_tokens={tokens}, seed=1)
opened = time.perf_counter()
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
batch = stream.batch(0)
print("opened", opened - imported, peak, time.perf_counter() - opened, stream.batches_per_epoch, flush=True)
"""


def run_pipeline(folder: Path, merges: int) -> tuple[list[Stage], dict[str, float]]:
    """(the stages, what opening the pairs for training took: seconds, bytes; and the seconds to the first batch)"""
    program = [sys.executable, "-m", "minitransformer"]
    made, cleaned = ("made.en", "made.de"), ("clean.en", "clean.de")
    stages = [
        measure("clean", [*program, "clean", "--src", made[0], "--tgt", made[1], "-o", *cleaned], folder),
        measure(
            "bpe train", [*program, "bpe", "train", *cleaned, "-o", "bpe", "--vocab-size", str(merges + 260)], folder
        ),
        measure(
            "binarise",
            [*program, "binarise", "--src", cleaned[0], "--tgt", cleaned[1], "--tokenizer", "bpe", "-o", "ids"],
            folder,
        ),
    ]
    measure("open", [sys.executable, "-c", OPEN.format(tokens=TOKENS)], folder)
    _, seconds, kilobytes, batch, batches = (folder / "log.txt").read_text().strip().split("\n")[-1].split()
    opening = {"seconds": float(seconds), "peak_bytes": 1024 * int(kilobytes), "first batch, seconds": float(batch)}
    return stages, opening | {"batches in an epoch": int(batches)}


def real_padding(folder: Path, merges: int) -> dict[str, float]:
    """Share of positions that are padding in batches of real text, by the padded tokens of a batch."""
    src, tgt = real_pairs(folder)
    tokenizer = Tokenizer.train([*src, *tgt], merges + 260)
    pairs = encode_parallel(tokenizer, src, tgt, max_length=256)
    shares = {}
    for tokens in (3400, TOKENS):
        stream = BatchStream(pairs.src, pairs.tgt, src_tokens=tokens, tgt_tokens=tokens, seed=1)
        shares[f"{tokens} + {tokens}"] = padding_share(stream)
    return shares


def padding_share(stream: BatchStream) -> float:
    """Fraction of the positions in an epoch's batches, source and target together, that are padding."""
    epoch = range(stream.batches_per_epoch)
    positions = sum(sentences * (src + tgt) for sentences, src, tgt in map(stream.shape, epoch))
    return 1 - sum(map(sum, map(stream.n_tokens, epoch))) / positions


def markdown(facts: dict, text: str, stages: list[Stage], opening: dict, padding: dict) -> str:
    lines = ["# The text pipeline at the size of WMT", "", f"{text}.", "", "`python -m benchmarks.wmt_scale`", ""]
    lines += markdown_head(["stage", "seconds", "peak memory, GB"])
    for stage in stages:
        lines.append(markdown_row([stage.name, f"{stage.seconds:,.1f}", f"{stage.peak_bytes / 1e9:.2f}"]))
    worst = max(stage.peak_bytes for stage in stages)
    lines.append(markdown_row(["all", f"{sum(stage.seconds for stage in stages):,.1f}", f"{worst / 1e9:.2f}"]))
    lines += [
        "",
        f"{MERGES:,} merges, two sides together. Opening the ids for training takes {opening['seconds']:.2f} s after "
        f"the imports and {opening['peak_bytes'] / 1e6:.0f} MB with them; the first batch, for which the first epoch "
        f"is shuffled, {opening['first batch, seconds']:.2f} s more.",
    ]
    if padding:
        shares = ", ".join(f"{share:.1%} at {tokens} tokens" for tokens, share in padding.items())
        lines += ["", f"Padding in batches of real text ({', '.join(CORPORA)}): {shares}."]
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wmt_scale", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small corpus, and no results are written")
    options = parser.parse_args(argv)
    facts = machine_facts()
    data = os.environ.get("MINITRANSFORMER_DATA")
    with tempfile.TemporaryDirectory() as name:
        folder, merges = Path(name), 300 if options.quick else MERGES
        sizes = (4000, 20_000) if options.quick else (PAIRS, VOCABULARY)
        text = make_corpus(folder, *sizes)
        stages, opening = run_pipeline(folder, merges)
    padding = real_padding(Path(data), MERGES) if data and not options.quick else {}
    table = markdown(facts, text, stages, opening, padding)
    print(table)
    if not options.quick:
        result = {"machine": facts, "text": text, "stages": [asdict(stage) for stage in stages]}
        save_results("wmt_scale", result | {"opening": opening, "padding": padding}, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
