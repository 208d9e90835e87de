"""Earlier, recurrent models against the Transformer: equal parameters, equal time, on reversal and on Multi30k.

    python -m examples.paper.recurrent --seeds 3  about 9 hours on one core; into results/recurrent.*
    python -m examples.paper.recurrent --quick    small sizes; writes nothing

GRU encoder-decoders without attention, with dot-product attention and with additive attention have the width at which
they have as many parameters as the Transformer. The numbers of updates take equal time on one core: ``speed`` measures
the time of an update. Each training begins with every learning rate, and continues with the one that has the lowest
validation loss after a third of the updates. Multi30k is expected in data/multi30k.
"""

import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from examples.paper.recurrent_report import markdown
from examples.paper.recurrent_tasks import corpus_of, of_size, scores_of, updates_of
from examples.paper.sweep import run_to_end
from examples.paper.trials import Experiment, main
from minitransformer.checkpoints import load_checkpoint
from minitransformer.config import UNK, Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig
from minitransformer.planning import parameter_count
from minitransformer.training import Corpus, Trainer, read_metrics

VALIDATIONS = 12
"""Per training. The learning rate is chosen after a third of them; the best one after a sixth, at the end of the
warm-up, was not always the best in the end."""
SETTINGS = {
    "models": {
        "Transformer": {},
        "GRU": {"kind": "recurrent", "n_layers": 2, "attention": "none"},
        "GRU, dot-product attention": {"kind": "recurrent", "n_layers": 2, "attention": "dot"},
        "GRU, additive attention": {"kind": "recurrent", "n_layers": 2, "attention": "additive"},
    },
    "shapes": {
        "reverse": {"n_layers": 2, "d_model": 64, "d_ff": 256, "n_heads": 4, "p_drop": 0.0},
        "Multi30k": {"n_layers": 3, "d_model": 128, "d_ff": 512, "n_heads": 8, "p_drop": 0.1},
    },
    "updates": {"reverse": [4100, 3660, 3480, 2660], "Multi30k": [3300, 3640, 3500, 3340]},
    "lr_scales": [0.2, 0.5, 1.0, 2.0, 4.0],
    "warmup_steps": 500,
    "tokens": {"reverse": 2048, "Multi30k": 1024},
    "micro_batch": 1024,
    "vocab_size": 4000,
    "symbols": 30,
    "lengths": [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60],
    "sequences": 20_000,
    "of_each_length": 50,
    "words": [8, 10, 12, 15, 60],
    "scored": ["val"],
}
"""shapes: of the Transformer; that of Multi30k is the base model of table3.py   updates: of each model, in equal time
tokens: padded target tokens of an update   micro_batch: of one pass through the model
lengths: of the sequences in the test; those in training have any between the first and the last
words: upper ends of the groups of scored sentences by source length   scored: the parts of Multi30k"""
QUICK = {"updates": {"reverse": [6] * 4}, "lr_scales": [1.0], "tokens": {"reverse": 256}, "lengths": [5, 8]}
QUICK |= {"shapes": {"reverse": {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}}, "sequences": 100}


def names(settings: dict) -> list[str]:
    return ["speed", *(f"{task}, {model}" for task in settings["updates"] for model in settings["models"])]


def trial(name: str, seed: int, settings: dict) -> dict:
    """For ``speed``, the seconds per update of each model; otherwise what one model has learned on one task."""
    if name == "speed":
        return {"update_seconds": speed(seed, settings)}
    task, model = name.split(", ", 1)
    return {"task": task, "model": model, **learned(task, model, seed, settings)}


def model_config(task: str, model: str, settings: dict) -> ModelConfig:
    """The Transformer's shape, or the width at which a recurrent model has nearly as many parameters."""
    shape, changes = settings["shapes"][task], settings["models"][model]
    vocab_size = UNK + 1 + settings["symbols"] if task == "reverse" else settings["vocab_size"]
    transformer = ModelConfig(vocab_size=vocab_size, **shape)
    if not changes:
        return transformer
    same = {"vocab_size": vocab_size, "p_drop": transformer.p_drop, **changes}
    wanted, largest = parameter_count(transformer), 2 * transformer.d_model
    return of_size(wanted, largest, lambda width: ModelConfig(**same, d_model=width))


def config_of(task: str, model: str, seed: int, directory: Path, settings: dict) -> Config:
    updates, tokens = updates_of(task, model, settings), settings["tokens"][task]
    micro_batch = min(tokens, settings["micro_batch"])
    return Config(
        model=model_config(task, model, settings),
        data=DataConfig(src_tokens=micro_batch * 5 // 4, tgt_tokens=micro_batch),
        training=TrainingConfig(
            directory=str(directory),
            seed=seed,
            updates=updates,
            micro_batches=tokens // micro_batch,
            threads=1,
            warmup_steps=settings["warmup_steps"],
            clip_norm=1.0,
            validate_every=max(updates // VALIDATIONS, 1),
            save_every=100,
            keep_checkpoints=1,
        ),
        execution=ExecutionConfig(device="cpu"),  # equal time is that of one core
    )


def train(config: Config, corpus: Corpus) -> Trainer:
    """Train, or resume; an interrupted training saves a checkpoint and ends the program."""
    trainer = Trainer(config, corpus, progress=False)
    run_to_end(trainer)
    return trainer


def learned(task: str, model: str, seed: int, settings: dict) -> dict:
    """Train with the best learning rate; the curve of the validation loss and the scores by length. With ``--quick`` no
    training is kept."""
    with nullcontext("runs/paper/recurrent") if settings == SETTINGS else tempfile.TemporaryDirectory() as folder:
        return train_and_score(task, model, seed, settings, Path(folder))


def train_and_score(task: str, model: str, seed: int, settings: dict, directory: Path) -> dict:
    corpus, found = corpus_of(task, seed, settings), {}
    configs = {}
    for scale in settings["lr_scales"]:
        folder = directory / f"{task}-{model}-{seed}-{scale}".replace(", ", "-").replace(" ", "-")
        config = config_of(task, model, seed, folder, settings)
        configs[scale] = replace(config, training=replace(config.training, lr_scale=scale))
        short = replace(configs[scale].training, updates=VALIDATIONS // 3 * config.training.validate_every)
        if folder.exists():
            Trainer(configs[scale], corpus, progress=False).folder.leave()  # refuses losses of other settings or data
        if not read_curve(folder, short.updates):
            train(replace(configs[scale], training=short), corpus)
        found[scale] = read_curve(folder, short.updates)[-1][1]
    best = min(found, key=found.get)
    trainer = train(configs[best], corpus)
    network, _ = load_checkpoint(trainer.folder.paths()[-1]).build()
    cost, shapes = trainer.cost(), trainer.batches.shapes(trainer.update)
    positions = sum(sentences * length for sentences, _, length in shapes)
    return {
        "lr_scale": best,
        "positions": positions / trainer.update,
        "curve": read_curve(Path(configs[best].training.directory)),
        **scores_of(task, network, settings),
        "width": trainer.config.model.d_model,
        "parameters": parameter_count(trainer.config.model),
        "flops": cost.formula,
        "flops_paper": cost.paper,
        "seconds": cost.seconds,
    }


def read_curve(folder: Path, until: int | None = None) -> list[tuple[int, float]]:
    """(update, nats per token of the validation set) of each validation so far; empty before the update ``until``."""
    path = folder / "metrics.jsonl"
    lines = [line for line in read_metrics(path) if line["kind"] == "valid"] if path.exists() else []
    curve = [(line["update"], line["nll"]) for line in lines if until is None or line["update"] <= until]
    return curve if curve and curve[-1][0] == (until or curve[-1][0]) else []


def speed(seed: int, settings: dict) -> dict[str, dict[str, float]]:
    """Processor seconds per update for each task and model."""
    warmed_up, timed = 5, 25
    found: dict[str, dict[str, float]] = {}
    for task in settings["updates"]:
        corpus, found[task] = corpus_of(task, seed, settings), {}
        for model in settings["models"]:
            with tempfile.TemporaryDirectory() as folder:
                config = config_of(task, model, seed, Path(folder), settings)
                for updates in (warmed_up, warmed_up + timed):
                    until = replace(config.training, updates=updates, validate_every=10**6)
                    trainer = Trainer(replace(config, training=until), replace(corpus, valid=None), progress=False)
                    began = time.process_time()
                    run_to_end(trainer)
                found[task][model] = (time.process_time() - began) / timed
    return found


EXPERIMENT = Experiment("recurrent", __doc__, SETTINGS, QUICK, names, trial, markdown)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
