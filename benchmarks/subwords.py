"""Byte-pair encoding: learning a vocabulary and encoding with it, ours beside the usual libraries.

    python -m benchmarks.subwords [--quick]

The text is the training half of Multi30k, English and German (MINITRANSFORMER_DATA); --quick takes generated number
words. 8,000 ids. Ours in Python; tokenizers (Hugging Face, Rust) with the same byte-level alphabet and GPT-2's word
pattern, on all cores; sentencepiece (C++) in its BPE mode, all cores; subword-nmt (Python), the paper's tool, whose
merges are those of our mode ``words``. Learning reads from memory where the peer can; encoding begins with empty
caches, since a corpus is encoded once. Figures are medians of rounds in which all take turns.

Results go to benchmarks/results/subwords.json and .md; --quick writes nothing.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import sentencepiece
import tokenizers
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

from benchmarks.machine import machine_facts
from benchmarks.tables import markdown_row, save_results
from minitransformer.text import Tokenizer, read_parallel

ROUNDS = 3
VOCAB_SIZE = 8000
PEERS = ("tokenizers", "sentencepiece", "subword-nmt")


def ours(mode: str) -> tuple[Callable, Callable]:
    """(learn from lines, encode lines with what was learned)"""

    def learn(lines: list[str], vocab_size: int) -> Tokenizer:
        return Tokenizer.train(lines, vocab_size, mode=mode)

    def encode(tokenizer: Tokenizer, lines: list[str]) -> int:
        fresh = Tokenizer(tokenizer.mode, tokenizer.base, tokenizer.merges)  # with empty caches
        return sum(map(len, fresh.encode_lines(lines)))

    return learn, encode


def learn_tokenizers(lines: list[str], vocab_size: int) -> tokenizers.Tokenizer:
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(lines, trainer)
    return bpe


def encode_tokenizers(bpe: tokenizers.Tokenizer, lines: list[str]) -> int:
    fresh = tokenizers.Tokenizer.from_str(bpe.to_str())
    return sum(len(each.ids) for each in fresh.encode_batch_fast(lines))


def learn_sentencepiece(lines: list[str], vocab_size: int) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocab_size,
        model_type="bpe",
        hard_vocab_limit=False,
        num_threads=os.cpu_count(),
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def encode_sentencepiece(processor: sentencepiece.SentencePieceProcessor, lines: list[str]) -> int:
    return sum(map(len, processor.encode(lines, num_threads=os.cpu_count())))


def learn_subword_nmt(lines: list[str], vocab_size: int) -> str:
    merges = io.StringIO()
    learn_bpe(io.StringIO("\n".join(lines) + "\n"), merges, vocab_size, min_frequency=2)
    return merges.getvalue()


def encode_subword_nmt(merges: str, lines: list[str]) -> int:
    bpe = BPE(io.StringIO(merges))
    return sum(len(bpe.process_line(line).split()) for line in lines)


CONTESTANTS: dict[str, tuple[Callable, Callable]] = {
    "ours, bytes": ours("bytes"),
    "ours, words": ours("words"),
    "tokenizers": (learn_tokenizers, encode_tokenizers),
    "sentencepiece": (learn_sentencepiece, encode_sentencepiece),
    "subword-nmt": (learn_subword_nmt, encode_subword_nmt),
}


def corpus(quick: bool) -> tuple[list[str], str]:
    """(lines, what they are)"""
    folder = os.environ.get("MINITRANSFORMER_DATA")
    if quick or not folder:
        from examples.number_words import draw_numbers, english, german

        numbers = draw_numbers(2000, seed=1)
        return [spelled(number) for spelled in (english, german) for number in numbers], "2,000 number words, generated"
    src, tgt = read_parallel(Path(folder) / "multi30k" / "train.en", Path(folder) / "multi30k" / "train.de")
    lines = [*src, *tgt]
    size = sum(len(line.encode()) + 1 for line in lines)
    return lines, f"Multi30k, train, English and German: {len(lines):,} lines, {size / 1e6:.1f} MB"


def race(lines: list[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds to learn and tokens per second encoded, by contestant, in each round."""
    found: dict[str, dict[str, list[float]]] = {name: {"learn": [], "encode": []} for name in CONTESTANTS}
    for _ in tqdm(range(rounds), desc="subwords", unit="round", leave=False):
        for name, (learn, encode) in CONTESTANTS.items():
            began = time.perf_counter()
            learned = learn(lines, VOCAB_SIZE)
            found[name]["learn"].append(time.perf_counter() - began)
            began = time.perf_counter()
            n_tokens = encode(learned, lines)
            found[name]["encode"].append(n_tokens / (time.perf_counter() - began))
    return found


def markdown(facts: dict, text: str, found: dict[str, dict[str, list[float]]]) -> str:
    lines = ["# Byte-pair encoding", "", f"{text}; {VOCAB_SIZE:,} ids.", "", "`python -m benchmarks.subwords`", ""]
    head = ["", "learning, s (lowest to highest)", "encoding, 1,000 tokens/s (lowest to highest)"]
    lines += [markdown_row(head), markdown_row(["---"] * len(head))]
    for name, figures in found.items():
        speeds = [speed / 1000 for speed in figures["encode"]]
        lines.append(markdown_row([name, _spread(figures["learn"], 2), _spread(speeds, 0)]))
    lines += ["", *(f"- {name}: {value}" for name, value in facts.items())]
    return "\n".join(lines) + "\n"


def _spread(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.subwords", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small text, one round, and no results are written")
    options = parser.parse_args(argv)
    facts = machine_facts() | {name: version(name) for name in PEERS}
    lines, text = corpus(options.quick)
    found = race(lines, 1 if options.quick else ROUNDS)
    table = markdown(facts, text, found)
    print(table)
    if not options.quick:
        result = {"machine": facts, "text": text, "seconds to learn and tokens per second": found}
        save_results("subwords", result, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
