"""Inputs of the readers of text: tokenizers, merges, configs, settings, parallel text."""

import gzip
import json
import lzma
import math
from collections import Counter
from pathlib import Path
from random import Random

from examples.wmt14.cleaning import REASONS, Rules, clean
from minitransformer.config import Config
from minitransformer.settings import with_settings
from minitransformer.text import Tokenizer
from minitransformer.text.corpus import read_parallel, stream_parallel

from .mutations import changed, damaged
from .worker import Reader

LINES = ["Zwei junge weiße Männer sind im Freien .", "Two males.  한국어 😀 \t e\u0301 12 + 345", "", "a b c"]


class TokenizerFile(Reader):
    """An accepted tokenizer is the same when written and read again, and encodes and decodes any line."""

    name = "tokenizer"

    def __init__(self, folder: Path):
        super().__init__(folder)
        options = [("bytes", 270), ("words", 100)]
        self.valid = [Tokenizer.train(LINES * 2, size, mode).dumps().encode() for mode, size in options]

    def write(self, rng: Random, folder: Path) -> None:
        (folder / "bpe.txt").write_bytes(changed(rng, self.valid))

    def read(self, folder: Path) -> None:
        tokenizer = Tokenizer.load(folder / "bpe.txt")
        again = Tokenizer.loads(tokenizer.dumps())
        assert (again.mode, again.base, again.merges) == (tokenizer.mode, tokenizer.base, tokenizer.merges)
        for line in LINES:
            ids = tokenizer.encode(line)
            assert all(0 <= number < tokenizer.vocab_size for number in ids)
            assert ids == again.encode(line) and len(tokenizer.subwords(ids)) == len(ids)
            if tokenizer.mode == "bytes":
                assert tokenizer.decode(ids) == line == tokenizer.unsegment(tokenizer.segment(line))
        tokenizer.decode(range(tokenizer.vocab_size))


def assert_valid(config: Config) -> None:
    """Every value has its type, and the config is the same when written and read again, as in a checkpoint."""
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    for section in config.to_dict().values():
        assert all(type(value) in (int, float, str, bool) for value in section.values())
        assert all(math.isfinite(value) for value in section.values() if isinstance(value, float))


class Toml(Reader):
    """An accepted config is valid."""

    name = "toml"
    VALID = (
        b"[model]\nn_layers = 2\nd_model = 64\nn_heads = 4\np_drop = 0.2\ntie_embeddings = false\n"
        b'positions = "learned"\n'
        b'[data]\ntrain_src = "train.en"\ntrain_tgt = "train.de" # text\ntokenizer = "bpe.txt"\nsrc_tokens = 2_048\n',
        b'# a run\n[training]\ndirectory = """runs/x"""\nseed = 3\nlr_scale = 1e-1\nsave_minutes = 2.5\n'
        b"[translation]\nbeam_size = 4\nalpha = 0.6\n[execution]\ndevice = 'cpu'\nprecision = \"float32\"\n",
        b'model = {d_model = 32, n_heads = 2}\ndata.max_length = 100\n\n[training]\n"updates" = 0x10\n',
    )

    def write(self, rng: Random, folder: Path) -> None:
        (folder / "run.toml").write_bytes(changed(rng, self.VALID))

    def read(self, folder: Path) -> None:
        assert_valid(Config.load(folder / "run.toml"))


class Settings(Reader):
    """Arguments of --set: the config that is accepted is valid, and only the keys named are changed."""

    name = "settings"
    VALID = tuple(
        b'model.d_model=64|training.seed=7|data.train_src=a b.en|training.directory="runs/x"|model.p_drop=0.3|'
        b"model.tie_embeddings=false|translation.alpha=1e-1|data.tokenizer = 'x'|training.updates=1_000|"
        b"execution.device=cpu".split(b"|")
    )

    def write(self, rng: Random, folder: Path) -> None:
        arguments = [changed(rng, self.VALID) for _ in range(rng.randint(1, 3))]
        arguments = [each.replace(b"\0", b"") for each in arguments]  # no argument of a process contains NUL
        (folder / "arguments").write_bytes(b"\0".join(arguments))

    def read(self, folder: Path) -> None:
        arguments = (folder / "arguments").read_bytes().decode("utf-8", "surrogateescape").split("\0")
        tables = with_settings({"model": {"n_layers": 2}}, arguments)
        config = Config.from_dict(tables, "with --set")
        named = {tuple(part.strip() for part in each.partition("=")[0].split(".", 1)) for each in arguments}
        plain, values = Config().to_dict(), config.to_dict()
        different = {
            (section, key) for section in plain for key in plain[section] if values[section][key] != plain[section][key]
        }
        assert different <= named | {("model", "n_layers"), ("model", "d_k"), ("model", "d_v")}
        assert_valid(config)


class ParallelText(Reader):
    """Accepted text has the same lines when read whole, as a stream, and by Python's own decompression."""

    name = "text"
    VALID = tuple(
        ("\n".join(lines) + "\n").encode()
        for lines in (LINES, LINES[::-1], ["\ufeffeins", "zwei\r", "drei \u2028 vier", "x"])
    )
    PACKED = {"": bytes, ".gz": lambda data: gzip.compress(data, 1), ".xz": lambda data: lzma.compress(data, preset=0)}

    def write(self, rng: Random, folder: Path) -> None:
        for side in ("src", "tgt"):
            suffix = rng.choice(("", "", "", ".gz", ".gz", ".xz"))
            where, text = rng.random(), rng.choice(self.VALID)
            if where < 0.4:  # with correct checksums of the compressed file
                text = changed(rng, self.VALID)
            if suffix and rng.random() < 0.001:
                text += rng.choice((b"a", b"a\n")) * (4 << 20)
            packed = self.PACKED[suffix](text)
            if suffix and where > 0.6:
                packed = damaged(rng, packed, self.PACKED[rng.choice((".gz", ".xz"))](text))
            (folder / f"{side}.txt{suffix}").write_bytes(packed)

    def read(self, folder: Path) -> None:
        src, tgt = (next(folder.glob(f"{side}.txt*")) for side in ("src", "tgt"))
        lines = read_parallel(src, tgt)
        pairs = list(zip(*lines, strict=True))
        assert pairs == list(stream_parallel(src, tgt))
        counts: Counter[str] = Counter()
        kept = [pair for chunk in clean(pairs, Rules(), counts) for pair in chunk]
        assert len(pairs) == counts["pairs"] == sum(counts[reason] for reason in (*REASONS, "kept"))
        assert len(kept) == counts["kept"] and all(
            line.isprintable() for pair in kept for line in pair if line.isascii()
        )
        for path, side in zip((src, tgt), lines, strict=True):
            opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
            with opener(path, "rb") as file:
                data = file.read()
            expected = data.decode("utf-8-sig").removesuffix("\n").split("\n")
            assert side == [line.removesuffix("\r") for line in expected]


READERS = (TokenizerFile, Toml, Settings, ParallelText)
