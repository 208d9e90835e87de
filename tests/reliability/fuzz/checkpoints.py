"""Inputs of the reader of checkpoints, and what must hold of a checkpoint that is accepted."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from minitransformer.checkpoints import Checkpoint, RunFolder, average_checkpoints, load_checkpoint
from minitransformer.config import Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig, TranslationConfig
from minitransformer.generation import translate_lines
from minitransformer.text import Tokenizer
from minitransformer.training import Corpus, Trainer

from .npz import damaged_checkpoint
from .worker import Reader

NAME = "update_00000002.npz"
OTHER_NAMES = [
    "update_1.npz",
    f"update_{'9' * 200}.npz",
    "update_٣.npz",
    "update_-1.npz",
    "update_00000003.npz",
    "x.npz",
]
VECTORS = ("parameters", "adam_m", "adam_v")
HEADS = {"d_ff": 8, "n_heads": 2}
MODELS = (
    HEADS | {"positions": "learned", "max_positions": 16},
    HEADS | {"kind": "language_model", "dtype": "float64"},
    HEADS | {"n_layers": 2},
    {"kind": "recurrent", "attention": "additive"},
)
WITHOUT_TABLE = 2  # the model of MODELS whose positions are not a table of limited length
LINES = ["a b c d", "b c", "d c b a"] * 4


class Checkpoints(Reader):
    """An accepted checkpoint can be saved, averaged, built, resumed from and translated with, or is refused there.

    The folder may contain an ``input.txt`` to translate.
    """

    name = "checkpoint"

    def __init__(self, folder: Path):
        super().__init__(folder)
        tokenizer = Tokenizer.train(LINES, 20, "words")
        text = Corpus.from_lines(tokenizer, (LINES, LINES[::-1]), max_length=16)
        ids = Corpus.one_sided([tokenizer.encode(line) for line in LINES])
        self.runs, self.valid, self.loaded = {}, [], []
        for number, model in enumerate(MODELS):
            config = small_config(str(folder / f"run{number}"), **model, vocab_size=tokenizer.vocab_size)
            corpus = ids if config.model.kind == "language_model" else text
            Trainer(config, corpus, progress=False).run()
            path = RunFolder(config.training.directory).path_of(2)
            self.runs[config.model.kind, config.model.positions] = config, corpus
            self.valid.append(path.read_bytes())
            self.loaded.append(load_checkpoint(path))

    def write(self, rng: Random, folder: Path) -> None:
        valid, other = rng.sample(self.valid, 2)
        data = damaged_checkpoint(rng, valid, other)
        folder = folder / "checkpoints"
        folder.mkdir()
        (folder / NAME).write_bytes(data)
        if rng.random() < 0.05:
            (folder / rng.choice(OTHER_NAMES)).write_bytes(valid)

    def read(self, folder: Path) -> None:
        path = folder / "checkpoints" / NAME
        checkpoint = load_checkpoint(path)
        if path.read_bytes() in self.valid:
            return
        self._use(checkpoint, folder, path)

    def _use(self, checkpoint: Checkpoint, folder: Path, path: Path) -> None:
        assert all(vector is None or vector.ndim == 1 for vector in (checkpoint.parameters, checkpoint.adam_m))
        checkpoint.save(folder / "again.npz")
        again = load_checkpoint(folder / "again.npz")
        assert (again.config, again.table, again.progress) == (checkpoint.config, checkpoint.table, checkpoint.progress)
        np.testing.assert_array_equal(again.parameters, checkpoint.parameters)
        same = [each for each in self.loaded if is_same(each, checkpoint)]
        if same:
            return
        model, tokenizer = checkpoint.build()
        assert model.parameters.count <= len(checkpoint.parameters)
        if tokenizer is not None:
            search = replace(checkpoint.search(), max_extra=3)
            lines = (folder / "input.txt").read_text().splitlines() if (folder / "input.txt").exists() else ["a b", ""]
            translated = translate_lines(model, tokenizer, lines, search)
            assert len(translated) == len(lines) and not any("\n" in line for line in translated)
        assert average_checkpoints([path, path]).table == checkpoint.table
        self._resume(checkpoint, folder)

    def _resume(self, checkpoint: Checkpoint, folder: Path) -> None:
        """Training resumes from it or refuses to."""
        model = checkpoint.config.model
        config, corpus = self.runs.get((model.kind, model.positions)) or self.runs[model.kind, "sinusoidal"]
        config = replace(config, training=replace(config.training, directory=str(folder), updates=3))
        trainer = Trainer(config, corpus, progress=False)
        assert trainer.update == checkpoint.update
        if checkpoint.update <= 3:
            trainer.run()


def small_config(directory: str, **model) -> Config:
    """A run of two updates; its model has some 2,000 parameters."""
    training = TrainingConfig(directory=directory, updates=2, warmup_steps=4, threads=1, log_every=1, save_every=2)
    return Config(
        model=ModelConfig(**{"n_layers": 1, "d_model": 8} | model),
        data=DataConfig(src_tokens=32, tgt_tokens=32, max_length=16),
        training=training,
        execution=ExecutionConfig(device="cpu"),
        translation=TranslationConfig(beam_size=2),
    )


def is_same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints have the same contents."""
    facts = ("update", "config", "table", "tokenizer_text", "step_count", "progress")
    return all(getattr(one, name) == getattr(other, name) for name in facts) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in VECTORS
    )
