"""Whole trainings on a GPU, by a recipe of examples/, to a BLEU score; a call that runs out of time leaves a checkpoint
from which the next one resumes."""

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from minitransformer.checkpoints import average_checkpoints, newest_checkpoints
from minitransformer.config import Config
from minitransformer.evaluation import corpus_bleu, require_sacrebleu
from minitransformer.generation import translate_lines
from minitransformer.text import Tokenizer, read_lines, read_parallel
from minitransformer.training import Outcome, Trainer, read_metrics

TOML = Path(__file__).parents[2] / "examples" / "multi30k" / "multi30k.toml"
RESERVE = 100.0  # seconds kept back for the start and for the translations
LAST = 5  # checkpoints in the mean


@dataclass(frozen=True)
class Recipe:
    """Which files of the data folder, how many subwords, and what changes in multi30k.toml."""

    name: str
    folder: str
    test: str
    pieces: int = 8000
    changes: tuple[str, ...] = ()

    def files(self, data: Path) -> dict[str, Path]:
        parts = {"train": "train", "valid": "val", "test": self.test}
        return {
            f"{part}_{side}": data / self.folder / f"{name}.{language}"
            for part, name in parts.items()
            for side, language in (("src", "en"), ("tgt", "de"))
        }


MULTI30K = Recipe("multi30k", "multi30k", "test_2016_flickr")
# More text than Multi30k, so a wider model and longer training; chosen before anything of it was measured.
TATOEBA = Recipe(
    "tatoeba",
    "tatoeba_en_de",
    "test",
    changes=(
        "model.d_model=256",
        "model.d_ff=1024",
        "model.p_drop=0.2",
        "training.updates=12000",
        "training.validate_every=500",
        "training.save_every=500",
        "training.keep_checkpoints=10",
    ),
)


def trained(
    recipe: Recipe, data: Path | None, runs: Path, seconds: float, device: str = "cuda", changes: Sequence[str] = ()
) -> dict:
    """Trains for as long as ``seconds`` allow; when all updates are done, the mean of the last checkpoints translates
    the test text and is scored. ``left to do`` says that another call must go on.

    changes: further settings, after those of the recipe
    """
    began = time.monotonic()
    missing = ["--data"] if data is None else [str(path) for path in recipe.files(data).values() if not path.is_file()]
    if missing:
        return {"left out": f"no {missing[0]}"}
    require_sacrebleu()
    config = _config(recipe, recipe.files(data), runs / recipe.name, device, changes)
    trainer = Trainer(config, progress=False)
    outcome = run_until(trainer, began + seconds - RESERVE)
    minutes, metrics = trainer.recorder.seconds() / 60, trainer.folder.metrics
    lines = read_metrics(metrics) if metrics.exists() else []  # none where the time was short
    last = (lines or [{}])[-1]
    result = {"updates": outcome.update, "of": config.training.updates, "minutes": minutes}
    result |= {name: last[name] for name in ("loss", "nll") if name in last}
    if outcome.update < config.training.updates:
        return result | {"left to do": f"{config.training.updates - outcome.update} updates: call it again"}
    return result | _scored(config, recipe.files(data), device)


def _config(recipe: Recipe, files: dict[str, Path], folder: Path, device: str, changes: Sequence[str]) -> Config:
    """The recipe on these files; its subwords are learned here the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = folder / "bpe"
    if not pieces.exists():
        lines = [line for side in ("train_src", "train_tgt") for line in read_lines(files[side])]
        Tokenizer.train(lines, vocab_size=recipe.pieces).save(pieces)
    places = {f"data.{part}": files[part] for part in ("train_src", "train_tgt", "valid_src", "valid_tgt")}
    places |= {"data.tokenizer": pieces, "training.directory": folder, "execution.device": device}
    settings = [f"{key}={json.dumps(str(value))}" for key, value in places.items()]
    return Config.load(TOML, [*settings, *recipe.changes, *changes])


def run_until(trainer: Trainer, end: float) -> Outcome:
    """As if somebody had asked the training to stop at ``end``: it ends between two updates, with a checkpoint."""
    timer = Timer(max(1.0, end - time.monotonic()), os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        return trainer.run()
    finally:
        timer.cancel()


def _scored(config: Config, files: dict[str, Path], device: str) -> dict:
    """As `minitransformer average` and `evaluate` do."""
    paths = newest_checkpoints(config.training.directory, LAST)
    model, tokenizer = average_checkpoints(paths).build(device)
    sources, references = read_parallel(files["test_src"], files["test_tgt"])
    began = time.perf_counter()
    hypotheses = translate_lines(model, tokenizer, sources, config.translation)
    seconds = time.perf_counter() - began
    bleu = corpus_bleu(hypotheses, references)
    search = {"beam": config.translation.beam_size, "alpha": config.translation.alpha, "mean of": len(paths)}
    scores = {"BLEU": bleu.score, "signature": bleu.signature, "sentences": len(sources)}
    return scores | {"seconds to translate": seconds} | search
