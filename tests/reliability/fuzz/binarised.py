"""Inputs of the reader of binarised data: folders with damaged headers, ids and offsets."""

import json
from pathlib import Path
from random import Random

import numpy as np

from minitransformer.config import PAD, ModelConfig
from minitransformer.models import Transformer
from minitransformer.text import BatchStream, Tokenizer
from minitransformer.text.binarise import binarise
from minitransformer.text.binary import fingerprint_of
from minitransformer.training import Corpus

from .mutations import altered, damaged, damaged_text
from .worker import Reader

LINES = ["a b c d", "b c", "d c b a c a b", "a", "c c c b"] * 3
FILES = ("header.json", "src.ids", "src.ends", "tgt.ids", "tgt.ends")
COUNTS = ("pairs", "vocab_size", "max_length", "n_empty", "n_long", "n_src_tokens", "n_tgt_tokens")
ODD_COUNTS = (-1, 0, 1, 2, 3, 100, 65536, 65537, 2**31, 2**32, 2**62, 2**63, 2**64, 10**30)
ODD_IDS = (PAD, 1, 2, 3, 19, 20, 300, 2**15, 2**16 - 1)
ODD_ENDS = (0, 1, 2, 5, 2**31, 2**31 + 5, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


class BinarisedData(Reader):
    """Batches contain each accepted pair once and no empty sentence; the model accepts the ids or refuses them."""

    name = "binarised"

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.tokenizer = Tokenizer.train(LINES, 20, "words")
        size = self.tokenizer.vocab_size
        self.model = Transformer(ModelConfig(vocab_size=size, n_layers=1, d_model=4, d_ff=4, n_heads=1))
        for side, lines in (("src", LINES), ("tgt", LINES[::-1])):
            (folder / f"{side}.txt").write_text("\n".join(lines) + "\n")
        binarise(self.tokenizer, [(folder / "src.txt", folder / "tgt.txt")], folder / "ids", max_length=16)
        self.valid = {name: (folder / "ids" / name).read_bytes() for name in FILES}

    def write(self, rng: Random, folder: Path) -> None:
        files = dict(self.valid)
        change = rng.choice((_any_file, _header, _header, _values, _values))
        change(rng, files)
        (folder / "ids").mkdir()
        for name, content in files.items():
            (folder / "ids" / name).write_bytes(content)

    def read(self, folder: Path) -> None:
        corpus = Corpus.from_binary(self.tokenizer, folder / "ids", max_length=16)
        src, tgt = corpus.train
        stream = BatchStream(src, tgt, src_tokens=64, tgt_tokens=64, seed=1)
        batches = [stream.batch(number) for number in range(stream.batches_per_epoch)]
        assert sorted(row for batch in batches for row in batch.rows) == list(range(len(src)))
        for batch in batches:
            for ids in (batch.src, batch.tgt_in, batch.tgt_out):
                self.model.checked_ids(ids, "ids")  # as every update does
        for side in (src, tgt):
            assert all(1 <= len(ids) < 16 and PAD not in ids for ids in side)
        assert corpus.longest() <= 16 and corpus.n_empty >= 0 and corpus.n_long >= 0


def _any_file(rng: Random, files: dict[str, bytes]) -> None:
    """Damage to the bytes of one file, or a missing file."""
    name = rng.choice(FILES)
    if rng.random() < 0.05:
        del files[name]
    else:
        files[name] = damaged(rng, files[name], files[rng.choice(FILES)])


def _header(rng: Random, files: dict[str, bytes]) -> None:
    header = json.loads(files["header.json"])
    if rng.random() < 0.3:
        files["header.json"] = damaged_text(rng, files["header.json"])
    elif rng.random() < 0.5:
        files["header.json"] = json.dumps(header | {rng.choice(COUNTS): rng.choice(ODD_COUNTS)}).encode()
    else:
        files["header.json"] = json.dumps(altered(rng, header)).encode()


def _values(rng: Random, files: dict[str, bytes]) -> None:
    """Other ids and offsets, more or fewer of them; the header and the fingerprint may be updated to match."""
    sides = {name: np.frombuffer(files[name], "<u8" if "ends" in name else "<u2").copy() for name in FILES[1:]}
    for _ in range(rng.choice((1, 1, 2, 5))):
        name = rng.choice(FILES[1:])
        values, change = sides[name], rng.randrange(5)
        odd = rng.choice(ODD_ENDS if "ends" in name else ODD_IDS)
        where = rng.randrange(len(values)) if len(values) else 0
        if change < 2 and len(values):
            values[where] = odd
        elif change == 2:
            sides[name] = np.insert(values, where, np.uint64(odd) if "ends" in name else odd)
        elif change == 3:
            sides[name] = np.delete(values, slice(where, where + rng.choice((1, 1, 1000))))
        else:
            sides[name] = rng.choice((values[::-1], np.sort(values), values[:0]))
    for name, values in sides.items():
        files[name] = values.astype("<u8" if "ends" in name else "<u2").tobytes()
    if rng.random() < 0.7:
        _make_right(files, sides)


def _make_right(files: dict[str, bytes], sides: dict[str, np.ndarray]) -> None:
    """Update the sizes in the header and, where it can be computed, the fingerprint."""
    header = json.loads(files["header.json"])
    header["pairs"] = len(sides["src.ends"])
    for side in ("src", "tgt"):
        header[f"n_{side}_tokens"] = len(sides[f"{side}.ids"])
        sides[f"{side}.ends"][-1:] = len(sides[f"{side}.ids"])
        files[f"{side}.ends"] = sides[f"{side}.ends"].astype("<u8").tobytes()
    parts = [np.split(sides[f"{side}.ids"], sides[f"{side}.ends"].astype(np.int64)[:-1]) for side in ("src", "tgt")]
    header["fingerprint"] = fingerprint_of(parts)
    files["header.json"] = json.dumps(header).encode()
