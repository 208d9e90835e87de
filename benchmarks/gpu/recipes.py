"""A whole training on a GPU, examples/multi30k, to a BLEU score; a call that runs out of time leaves a checkpoint
from which the next one resumes."""

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Timer

from examples.paper.points import mean_of_last
from minitransformer.config import Config
from minitransformer.evaluation import corpus_bleu, require_sacrebleu
from minitransformer.generation import translate_lines
from minitransformer.text import Tokenizer, read_lines, read_parallel
from minitransformer.training import Outcome, Trainer, read_metrics

TOML = Path(__file__).parents[2] / "examples" / "multi30k" / "multi30k.toml"
RESERVE = 100.0  # seconds kept back for the translations, or a quarter of a short time
LAST = 5  # checkpoints in the mean
PIECES = 8000
FILES = {
    f"{part}_{side}": f"{name}.{language}"
    for part, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr"))
    for side, language in (("src", "en"), ("tgt", "de"))
}


def trained(
    data: Path | None,
    folder: Path,
    seconds: float,
    device: str = "cuda",
    changes: Sequence[str] = (),
    pieces: int = PIECES,
) -> dict:
    """Trains for as long as ``seconds`` allow; when all updates are done, the mean of the last checkpoints translates
    the test text and is scored. ``left to do`` says that another call must continue.

    data: has multi30k/   folder: of the run   changes: further settings, after those of multi30k.toml
    """
    began = time.monotonic()
    files = {key: (data or Path()) / "multi30k" / name for key, name in FILES.items()}
    missing = ["--data"] if data is None else [str(path) for path in files.values() if not path.is_file()]
    if missing:
        return {"left out": f"no {missing[0]}"}
    require_sacrebleu()
    config = _config(files, folder, device, changes, pieces)
    trainer = Trainer(config, progress=False)
    outcome = run_until(trainer, began + seconds - min(RESERVE, seconds / 4))
    minutes, metrics = trainer.recorder.seconds() / 60, trainer.folder.metrics
    lines = read_metrics(metrics) if metrics.exists() else []  # none where the time was short
    last = (lines or [{}])[-1]
    result = {"updates": outcome.update, "of": config.training.updates, "minutes": minutes}
    result |= {name: last[name] for name in ("loss", "nll") if name in last}
    told = f"after {outcome.update} updates in {minutes:.1f} minutes"
    if left := config.training.updates - outcome.update:
        return result | {"left to do": f"{left} updates: call it again", "says": f"nll {last.get('nll')} {told}"}
    scores = _score(config, files, device)
    return result | scores | {"says": f"{scores['BLEU']:.2f} sacreBLEU {told}"}


def _config(files: dict[str, Path], folder: Path, device: str, changes: Sequence[str], pieces: int) -> Config:
    """The recipe on these files; its subwords are learned here the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = folder / "bpe"
    if not tokenizer.exists():
        lines = [line for side in ("train_src", "train_tgt") for line in read_lines(files[side])]
        Tokenizer.train(lines, vocab_size=pieces).save(tokenizer)
    places = {f"data.{part}": files[part] for part in ("train_src", "train_tgt", "valid_src", "valid_tgt")}
    places |= {"data.tokenizer": tokenizer, "training.directory": folder, "execution.device": device}
    settings = [f"{key}={json.dumps(str(value))}" for key, value in places.items()]
    return Config.load(TOML, [*settings, *changes])


def run_until(trainer: Trainer, end: float) -> Outcome:
    """Trains as if somebody asked it to stop at ``end``: it ends between two updates, with a checkpoint."""
    timer = Timer(max(1.0, end - time.monotonic()), os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        return trainer.run()
    finally:
        timer.cancel()


def _score(config: Config, files: dict[str, Path], device: str) -> dict:
    """Scores of the mean of the last checkpoints, as by `evaluate`; those saved where earlier calls ended do not
    count."""
    model, tokenizer = mean_of_last(config, LAST).build(device)
    sources, references = read_parallel(files["test_src"], files["test_tgt"])
    began = time.perf_counter()
    hypotheses = translate_lines(model, tokenizer, sources, config.translation)
    seconds = time.perf_counter() - began
    bleu = corpus_bleu(hypotheses, references)
    search = {"beam": config.translation.beam_size, "alpha": config.translation.alpha, "mean of": LAST}
    scores = {"BLEU": bleu.score, "signature": bleu.signature, "sentences": len(sources)}
    return scores | {"seconds to translate": seconds} | search
