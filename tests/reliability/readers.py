"""The readers of files that are fuzzed, their valid inputs, and what must hold of an input that is accepted.

A new reader is one class and one entry of READERS.
"""

import gzip
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from minitransformer.checkpoints import RunFolder, average_checkpoints, load_checkpoint
from minitransformer.config import PAD, Config
from minitransformer.generation import translate_lines
from minitransformer.settings import with_settings
from minitransformer.text import BatchStream, Tokenizer
from minitransformer.text.binarize import binarize
from minitransformer.text.binary import fingerprint_of
from minitransformer.text.corpus import read_parallel, stream_parallel
from minitransformer.training import Corpus, Trainer

from .damage import altered, changed, damaged, damaged_checkpoint, damaged_text
from .foreign import ForeignWeights
from .sandbox import Reader

SHORT = ["a b c d", "b c", "d c b a c a b", "a", "c c c b"] * 3
LINES = ["Zwei junge weiße Männer sind im Freien .", "Two males.  한국어 😀 \t e\u0301 12 + 345", "", "a b c"]
NAME = "update_00000002.npz"
MODELS = (
    {"d_ff": 8, "n_heads": 2, "positions": "learned", "max_positions": 16},
    {"d_ff": 8, "n_heads": 2, "kind": "language_model", "dtype": "float64"},
    {"d_ff": 8, "n_heads": 2, "n_layers": 2},
    {"kind": "recurrent", "attention": "additive"},
)


class Checkpoints(Reader):
    """An accepted checkpoint can be saved, averaged, built, resumed from and made to translate."""

    name = "checkpoint"

    def __init__(self, folder: Path):
        super().__init__(folder)
        tokenizer = Tokenizer.train(SHORT, 20, "words")
        text = Corpus.from_lines(tokenizer, (SHORT, SHORT[::-1]), max_length=16)
        ids = Corpus.one_sided([tokenizer.encode(line) for line in SHORT])
        self.runs, self.valid = {}, []
        for number, model in enumerate(MODELS):
            config = small_config(folder / f"run{number}", model | {"vocab_size": tokenizer.vocab_size})
            corpus = ids if config.model.kind == "language_model" else text
            Trainer(config, corpus, progress=False).run()
            self.runs[config.model.kind, config.model.positions] = config, corpus
            self.valid.append(RunFolder(config.training.directory).path_of(2).read_bytes())

    def write(self, rng: Random, folder: Path) -> None:
        (folder / "checkpoints").mkdir()
        valid, other = rng.sample(self.valid, 2)
        (folder / "checkpoints" / NAME).write_bytes(damaged_checkpoint(rng, valid, other))
        if rng.random() < 0.05:
            (folder / "checkpoints" / rng.choice(("update_1.npz", "update_٣.npz", "x.npz"))).write_bytes(valid)

    def read(self, folder: Path) -> None:
        path = folder / "checkpoints" / NAME
        checkpoint = load_checkpoint(path)
        checkpoint.save(folder / "again.npz")
        again = load_checkpoint(folder / "again.npz")
        assert (again.config, again.table, again.progress) == (checkpoint.config, checkpoint.table, checkpoint.progress)
        np.testing.assert_array_equal(again.parameters, checkpoint.parameters)
        built, tokenizer = checkpoint.build()
        assert built.parameters.count <= len(checkpoint.parameters)
        if tokenizer is not None:
            search = replace(checkpoint.config.translation, max_extra=3)
            translated = translate_lines(built, tokenizer, ["a b", ""], search)
            assert len(translated) == 2 and not any("\n" in line for line in translated)
        assert average_checkpoints([path, path]).table == checkpoint.table
        model = checkpoint.config.model
        config, corpus = self.runs.get((model.kind, model.positions)) or self.runs[model.kind, "sinusoidal"]
        config = replace(config, training=replace(config.training, directory=str(folder), updates=3))
        trainer = Trainer(config, corpus, progress=False)
        assert trainer.update == checkpoint.update
        if checkpoint.update <= 3:
            trainer.run()


def small_config(directory: Path, model: dict) -> Config:
    """A run of two updates; its model has some 2,000 parameters."""
    sections = {"data": {"src_tokens": 32, "tgt_tokens": 32, "max_length": 16}, "execution": {"device": "cpu"}}
    sections["training"] = {"directory": str(directory), "updates": 2, "warmup_steps": 4, "threads": 1, "save_every": 2}
    sections["translation"] = {"beam_size": 2}
    return Config.from_dict(sections | {"model": {"n_layers": 1, "d_model": 8} | model})


class BinarizedData(Reader):
    """Batches contain each accepted pair once, no empty sentence, no padding, and no id beyond the vocabulary."""

    name = "binarized"
    SIDES = ("src.ids", "src.ends", "tgt.ids", "tgt.ends")
    ODD = (PAD, 1, 2, 3, 20, 300, 2**15, 2**16 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.tokenizer = Tokenizer.train(SHORT, 20, "words")
        for side, lines in (("src", SHORT), ("tgt", SHORT[::-1])):
            (folder / f"{side}.txt").write_text("\n".join(lines) + "\n")
        binarize(self.tokenizer, [(folder / "src.txt", folder / "tgt.txt")], folder / "ids", max_length=16)
        self.valid = {name: (folder / "ids" / name).read_bytes() for name in ("header.json", *self.SIDES)}

    def write(self, rng: Random, folder: Path) -> None:
        files, kind, name = dict(self.valid), rng.random(), rng.choice(list(self.valid))
        header = json.loads(files["header.json"])
        if kind < 0.1:
            files[name] = damaged(rng, files[name], self.valid[rng.choice(self.SIDES)])
        elif kind < 0.45:
            odd = header | {rng.choice(list(header)): rng.choice((-1, 10**30, *self.ODD))}
            texts = (json.dumps(odd).encode(), json.dumps(altered(rng, header)).encode())
            files["header.json"] = rng.choice((*texts, damaged_text(rng, files["header.json"])))
        else:
            self._change_values(rng, files)
        (folder / "ids").mkdir()
        for name, content in files.items():
            (folder / "ids" / name).write_bytes(content)

    def _change_values(self, rng: Random, files: dict[str, bytes]) -> None:
        """Other ids and offsets, more or fewer of them; sizes and fingerprint in the header may be updated to match."""
        sides = {name: np.frombuffer(files[name], "<u8" if "ends" in name else "<u2") for name in self.SIDES}
        for _ in range(rng.choice((1, 1, 2, 5))):
            name = rng.choice(self.SIDES)
            values = sides[name]
            odd = np.array(rng.choice(self.ODD), np.uint64).astype(values.dtype)
            where = rng.randrange(len(values) + 1)
            rest = values[where + rng.choice((0, 1, 1, 1, 1000)) :]  # inserted, replaced, or the end is missing
            choices = (np.concatenate([values[:where], [odd], rest]), values[::-1], np.sort(values), values[:0])
            sides[name] = rng.choices(choices, (20, 1, 1, 1))[0].astype(values.dtype)
        if rng.random() < 0.7:
            header, parts = json.loads(files["header.json"]) | {"pairs": len(sides["src.ends"])}, []
            for side in ("src", "tgt"):
                ids, ends = sides[f"{side}.ids"], sides[f"{side}.ends"].copy()
                ends[-1:] = header[f"n_{side}_tokens"] = len(ids)
                sides[f"{side}.ends"] = ends
                parts.append(np.split(ids, ends.astype(np.int64)[:-1]))
            files["header.json"] = json.dumps(header | {"fingerprint": fingerprint_of(parts)}).encode()
        files |= {name: values.tobytes() for name, values in sides.items()}

    def read(self, folder: Path) -> None:
        corpus = Corpus.from_binary(self.tokenizer, folder / "ids", max_length=16)
        src, tgt = corpus.train
        stream = BatchStream(src, tgt, src_tokens=64, tgt_tokens=64, seed=1)
        batches = [stream.batch(number) for number in range(stream.batches_per_epoch)]
        assert sorted(row for batch in batches for row in batch.rows) == list(range(len(src)))
        for ids in (*src, *tgt):
            assert 1 <= len(ids) < 16 and PAD not in ids and max(ids) < self.tokenizer.vocab_size
        assert corpus.longest() <= 16 and corpus.n_empty >= 0 and corpus.n_long >= 0


class TokenizerFile(Reader):
    """An accepted tokenizer is the same when written and read again, and encodes and decodes any line."""

    name = "tokenizer"

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.valid = [Tokenizer.train(LINES * 2, 270, mode).dumps().encode() for mode in ("bytes", "words")]

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
                assert tokenizer.decode(ids) == line
        tokenizer.decode(range(tokenizer.vocab_size))


class Settings(Reader):
    """An accepted config, in TOML and by --set, is valid, and --set changes only the keys it names."""

    name = "config"
    TOML = (
        b"[model]\nn_layers = 2\nd_model = 64\nn_heads = 4\np_drop = 0.2\ntie_embeddings = false\n"
        b'positions = "learned"\n'
        b'[data]\ntrain_src = "train.en"\ntrain_tgt = "train.de" # text\ntokenizer = "bpe.txt"\nsrc_tokens = 2_048\n',
        b'# a run\n[training]\ndirectory = """runs/x"""\nseed = 3\nlr_scale = 1e-1\nsave_minutes = 2.5\n'
        b"[translation]\nalpha = 0.6\n[execution]\ndevice = 'cpu'\n",
        b'model = {d_model = 32, n_heads = 2}\ndata.max_length = 100\n\n[training]\n"updates" = 0x10\n',
    )
    WORDS = (
        b'model.d_model=64|training.seed=7|data.train_src=a b.en|training.directory="runs/x"|model.p_drop=0.3|'
        b"model.tie_embeddings=false|translation.alpha=1e-1|data.tokenizer = 'x'|training.updates=1_000|"
        b"execution.device=cpu".split(b"|")
    )

    def write(self, rng: Random, folder: Path) -> None:
        if rng.random() < 0.5:
            (folder / "run.toml").write_bytes(changed(rng, self.TOML))
        else:  # no argument of a process contains NUL
            words = [changed(rng, self.WORDS).replace(b"\0", b"") for _ in range(rng.randint(1, 3))]
            (folder / "words").write_bytes(b"\0".join(words))

    def read(self, folder: Path) -> None:
        if (folder / "words").exists():
            words = (folder / "words").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            config = Config.from_dict(with_settings({"model": {"n_layers": 2}}, words), "with --set")
            named = {tuple(part.strip() for part in each.partition("=")[0].split(".", 1)) for each in words}
            plain, values = Config().to_dict(), config.to_dict()
            different = {(part, key) for part in plain for key in plain[part] if values[part][key] != plain[part][key]}
            assert different <= named | {("model", "n_layers"), ("model", "d_k"), ("model", "d_v")}
        else:
            config = Config.load(folder / "run.toml")
        assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
        for section in config.to_dict().values():
            assert all(type(value) in (int, float, str, bool) for value in section.values())
            assert all(math.isfinite(value) for value in section.values() if isinstance(value, float))


class ParallelText(Reader):
    """Accepted text has the same lines when read whole, as a stream, and by Python's own decompression."""

    name = "text"
    VALID = ("\n".join(LINES).encode(), "\ufeffeins\nzwei\r\ndrei \u2028 vier\n".encode(), b"a\nb\nc\nd\n")
    PACKED = {"": bytes, ".gz": lambda data: gzip.compress(data, 1), ".xz": lambda data: lzma.compress(data, preset=0)}

    def write(self, rng: Random, folder: Path) -> None:
        for side in ("src", "tgt"):
            suffix, where = rng.choice(("", "", "", ".gz", ".gz", ".xz")), rng.random()
            text = changed(rng, self.VALID) if where < 0.4 else rng.choice(self.VALID)
            data = self.PACKED[suffix](text)
            (folder / f"{side}.txt{suffix}").write_bytes(damaged(rng, data, text) if suffix and where > 0.6 else data)

    def read(self, folder: Path) -> None:
        src, tgt = (next(folder.glob(f"{side}.txt*")) for side in ("src", "tgt"))
        lines = read_parallel(src, tgt)
        assert list(zip(*lines, strict=True)) == list(stream_parallel(src, tgt))
        for path, side in zip((src, tgt), lines, strict=True):
            with {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)(path, "rb") as file:
                expected = file.read().decode("utf-8-sig").removesuffix("\n").split("\n")
            assert side == [line.removesuffix("\r") for line in expected]


ALL = (Checkpoints, BinarizedData, TokenizerFile, Settings, ParallelText, ForeignWeights)
READERS: dict[str, type[Reader]] = {each.name: each for each in ALL}
