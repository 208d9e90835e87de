"""A run small enough to train in a second: reversing random sequences."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from minitransformer.checkpoints import load_checkpoint, save_checkpoint
from minitransformer.config import Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig, model_section
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import Tokenizer
from minitransformer.training import Corpus, Trainer, read_metrics, train_step, trainer

EXECUTION = {field.name for field in fields(ExecutionConfig)}
MODEL = ModelConfig(vocab_size=20, n_layers=1, d_model=16, d_ff=32, n_heads=2, p_drop_attention=0.1, p_drop_ffn=0.1)


def tiny_corpus(seed: int = 0) -> Corpus:
    """Sequences of 1 to 8 ids and their reverse."""
    rng = np.random.default_rng(seed)
    src = [rng.integers(4, MODEL.vocab_size, rng.integers(1, 9)).tolist() for _ in range(140)]
    tgt = [ids[::-1] for ids in src]
    return Corpus((src[:120], tgt[:120]), (src[120:], tgt[120:]))


def tiny_text(folder: Path) -> dict:
    """[data] of a text of two words a line and its tokenizer, which are written into the folder."""
    lines = [f"{a} {b}" for a in "abcde" for b in "fghij"]
    Tokenizer.train(lines, 60, mode="words").save(folder / "bpe.txt")
    (folder / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = ("train_src", "train_tgt", "valid_src", "valid_tgt")
    return dict.fromkeys(names, str(folder / "text")) | {"tokenizer": str(folder / "bpe.txt"), "tgt_tokens": 64}


def write_config(path: Path, **sections: dict) -> Path:
    """The path of a file that has these sections."""
    lines = []
    for name, table in sections.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def tiny_config(directory, *, data: dict | None = None, model: dict | None = None, **training) -> Config:
    """Epochs of 7 or 8 updates with dropout on, two micro-batches each; keywords change [training] or [execution]."""
    execution = {name: training.pop(name) for name in EXECUTION if name in training}
    defaults = dict(micro_batches=2, warmup_steps=20, log_every=2, validate_every=10, save_every=4)
    return Config(
        model=model_section((model or {}).get("kind", MODEL.kind))(**asdict(MODEL) | (model or {})),
        data=DataConfig(**{"src_tokens": 64, "tgt_tokens": 64} | (data or {})),
        training=TrainingConfig(directory=str(directory), **defaults | training),
        execution=ExecutionConfig(**{"device": "cpu"} | execution),
    )


def tiny_trainer(directory, corpus: Corpus | None = None, **changes) -> Trainer:
    return Trainer(tiny_config(directory, **changes), corpus or tiny_corpus(), progress=False)


def save_untrained(path: Path) -> Path:
    """A checkpoint of a model with its first weights, after 7 updates that were none."""
    config = tiny_config("unused")
    model = Transformer(config.model, seed=5)
    save_checkpoint(path, model, Adam(model.parameters), update=7, config=config)
    return path


def checkpoint_of(directory, update: int) -> Path:
    return Path(directory) / "checkpoints" / f"update_{update:08d}.npz"


def final_state(directory, update: int) -> list[np.ndarray]:
    """All that training resumes from: parameters and Adam's state in the checkpoint of ``update``."""
    checkpoint = load_checkpoint(checkpoint_of(directory, update))
    return [checkpoint.parameters, checkpoint.adam_m, checkpoint.adam_v, np.array(checkpoint.step_count)]


def assert_same_state(directory, other, update: int) -> None:
    for one, two in zip(final_state(directory, update), final_state(other, update), strict=True):
        np.testing.assert_array_equal(one, two, err_msg=f"{directory} and {other}")


def metrics_of(directory) -> list[dict]:
    """The lines of the run's metrics without what depends on the speed of the machine."""
    lines = read_metrics(Path(directory) / "metrics.jsonl")
    return [{key: line[key] for key in line if key not in ("seconds", "tokens_per_second")} for line in lines]


def entries_read(monkeypatch) -> list[str]:
    """A list to which the name of every entry whose array is read from a checkpoint is added."""
    names, original = [], np.lib.format.read_array

    def noted(file, **options):
        names.append(file.name.removesuffix(".npy"))
        return original(file, **options)

    monkeypatch.setattr(np.lib.format, "read_array", noted)
    return names


def at_update(monkeypatch, number: int, act, after: bool = False) -> None:
    """Call ``act(model)`` just before update ``number`` is computed, or just after it."""

    def step(model, *inputs, update, **options):
        if update == number and not after:
            act(model)
        result = train_step(model, *inputs, update=update, **options)
        if update == number and after:
            act(model)
        return result

    monkeypatch.setattr(trainer, "train_step", step)
