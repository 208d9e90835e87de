"""Byte-pair encoding: learning a vocabulary and encoding with it, compared with the usual libraries.

    python -m benchmarks.subwords [--quick]

The text is 42 MB of English and German: Multi30k, Tatoeba and WMT small (MINITRANSFORMER_DATA), repeated to that size;
--quick, and a call without that data, use synthetic number words. 37,000 merges. Ours in Python, encoding by one
process; tokenizers (Hugging Face, Rust) with the same byte-level alphabet and GPT-2's word pattern, on all cores;
sentencepiece (C++) in BPE mode, on all cores; subword-nmt (Python), the paper's tool, whose merges are those of our
mode ``words``. All learn from the same file. Encoding takes lines in memory and starts with empty caches, since a
corpus is encoded only once. Figures are medians of rounds in which the libraries take turns; subword-nmt, which takes
minutes, has one round.
"""

import gc
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import sentencepiece
import tokenizers
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

from benchmarks.common.real_text import CORPORA, real_pairs, repeated_to, text_size
from benchmarks.common.tables import run_benchmark
from examples.report import markdown_table, spread, with_extremes
from minitransformer.blas import core_count
from minitransformer.text import Tokenizer, count_words_in_files
from minitransformer.text.pretokenizers import PRETOKENIZERS
from minitransformer.text.tokenizer import SPECIALS

ROUNDS = 3
TEXT_BYTES = 42_000_000
MERGES = 37_000
ONCE = ("subword-nmt",)
PEERS = ("tokenizers", "sentencepiece", "subword-nmt")


def ours(mode: str) -> tuple[Callable, Callable]:
    """(function that learns from a file, function that encodes lines)"""

    def learn(path: Path, merges: int) -> Tokenizer:
        words = count_words_in_files([path], mode, processes=core_count())
        base = PRETOKENIZERS[mode].base(words)
        return Tokenizer.learn(words, len(SPECIALS) + len(base) + merges, mode)

    def encode(tokenizer: Tokenizer, lines: list[str]) -> int:
        fresh = Tokenizer(tokenizer.mode, tokenizer.base, tokenizer.merges)  # with empty caches
        return sum(map(len, fresh.encode_lines(lines)))

    return learn, encode


def learn_tokenizers(path: Path, merges: int) -> tokenizers.Tokenizer:
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(alphabet) + merges, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train([str(path)], trainer)
    return bpe


def encode_tokenizers(bpe: tokenizers.Tokenizer, lines: list[str]) -> int:
    fresh = tokenizers.Tokenizer.from_str(bpe.to_str())
    return sum(len(each.ids) for each in fresh.encode_batch_fast(lines))


def learn_sentencepiece(path: Path, merges: int) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(path),
        model_writer=model,
        vocab_size=merges,
        model_type="bpe",
        hard_vocab_limit=False,
        num_threads=core_count(),
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def encode_sentencepiece(processor: sentencepiece.SentencePieceProcessor, lines: list[str]) -> int:
    return sum(map(len, processor.encode(lines, num_threads=core_count())))


def learn_subword_nmt(path: Path, merges: int) -> str:
    codes = io.StringIO()
    with path.open(encoding="utf-8", newline="\n") as file:
        learn_bpe(file, codes, merges, min_frequency=2)
    return codes.getvalue()


def encode_subword_nmt(codes: str, lines: list[str]) -> int:
    bpe = BPE(io.StringIO(codes))
    return sum(len(bpe.process_line(line).split()) for line in lines)


CONTESTANTS: dict[str, tuple[Callable, Callable]] = {
    "ours, bytes": ours("bytes"),
    "ours, words": ours("words"),
    "tokenizers": (learn_tokenizers, encode_tokenizers),
    "sentencepiece": (learn_sentencepiece, encode_sentencepiece),
    "subword-nmt": (learn_subword_nmt, encode_subword_nmt),
}


def corpus(quick: bool) -> tuple[list[str], str]:
    """(lines, their description)"""
    folder = os.environ.get("MINITRANSFORMER_DATA")
    if quick or not folder:
        from examples.number_words import draw_numbers, english, german

        numbers = draw_numbers(2000, seed=1)
        return [spelled(number) for spelled in (english, german) for number in numbers], "2,000 synthetic number words"
    real = [line for side in real_pairs(Path(folder)) for line in side]
    lines = repeated_to(real, TEXT_BYTES)
    names = ", ".join(CORPORA)
    return lines, f"{names}: {len(real):,} lines, repeated to {text_size(lines) / 1e6:.1f} MB"


def race(lines: list[str], path: Path, rounds: int, merges: int) -> dict[str, dict[str, list[float]]]:
    """Seconds to learn and tokens encoded per second, by contestant, in each round; ``path`` contains the lines."""
    found: dict[str, dict[str, list[float]]] = {name: {"learn": [], "encode": []} for name in CONTESTANTS}
    for number in tqdm(range(rounds), desc="subwords", unit="round", leave=False):
        for name, (learn, encode) in CONTESTANTS.items():
            if number and name in ONCE:
                continue
            gc.collect()  # so that no contestant pays for the garbage of another
            began = time.perf_counter()
            learned = learn(path, merges)
            found[name]["learn"].append(time.perf_counter() - began)
            began = time.perf_counter()
            n_tokens = encode(learned, lines)
            found[name]["encode"].append(n_tokens / (time.perf_counter() - began))
    return found


def markdown(text: str, merges: int, found: dict[str, dict[str, list[float]]]) -> list[str]:
    head = ["", "learning, s (minimum to maximum)", "encoding, 1,000 tokens/s (minimum to maximum)"]
    rows = []
    for name, each in found.items():
        speeds = [speed / 1000 for speed in each["encode"]]
        rows.append([name, with_extremes(spread(each["learn"]), ",.2f"), with_extremes(spread(speeds), ",.0f")])
    about, command = f"{text}; {merges:,} merges.", "`python -m benchmarks.subwords`"
    return ["# Byte-pair encoding", about, command, markdown_table(head, rows)]


def measure(quick: bool) -> tuple[dict, list[str]]:
    lines, text = corpus(quick)
    merges = 300 if quick else MERGES
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        found = race(lines, path, 1 if quick else ROUNDS, merges)
    return {"text": text, "seconds to learn and tokens per second": found}, markdown(text, merges, found)


def main(argv: Sequence[str] | None = None) -> int:
    return run_benchmark("subwords", __doc__, measure, argv, {name: version(name) for name in PEERS})


if __name__ == "__main__":
    sys.exit(main())
