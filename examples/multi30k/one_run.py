"""One training of the ladder: its config, what it records, how it is scored."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from examples.multi30k.rungs import MEANS_OF, Step
from examples.paper.points import SPARE, mean_of_last, updates_of_mean
from examples.paper.sweep import run_to_end
from examples.report import machine_facts
from minitransformer.checkpoints.same_run import MAY_CHANGE
from minitransformer.config import Config
from minitransformer.evaluation import corpus_bleu
from minitransformer.evaluation.bleu import moses_tokens
from minitransformer.generation import translate_lines
from minitransformer.planning import parameter_count
from minitransformer.text import read_parallel
from minitransformer.text.punctuation import normalize_punctuation
from minitransformer.training import Trainer, read_metrics

PROGRAM = "python -m examples.multi30k.ladder"
IGNORED = (MAY_CHANGE["data"] | MAY_CHANGE["training"] | {"seed"}) - {"updates", "save_every", "init_from"}
"""Settings in which two results of a rung may differ."""


def config_of(step: Step, seed: int, arguments: argparse.Namespace) -> Config:
    """The recipe with the settings of a step."""
    own = {
        "data.train_src": arguments.data / "train.en",
        "data.train_tgt": arguments.data / "train.de",
        "data.valid_src": arguments.data / "val.en",
        "data.valid_tgt": arguments.data / "val.de",
        "data.tokenizer": tokenizer_path(arguments),
        "training.directory": folder_of(step, seed, arguments),
    }
    own = {key: str(path) for key, path in own.items()}
    own |= {"training.seed": seed, "training.threads": 1, "training.keep_checkpoints": max(MEANS_OF) + SPARE}
    settings = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in (step.settings | own).items()]
    config = Config.load(arguments.recipe, settings)
    updates_of_mean(config, max(MEANS_OF))  # refuses too few before any training
    return config


def tokenizer_path(arguments: argparse.Namespace) -> Path:
    return arguments.directory / f"bpe.{arguments.vocab_size}"


def folder_of(step: Step, seed: int, arguments: argparse.Namespace) -> Path:
    """A folder for all settings but the number of updates, so that a training with more updates resumes where it
    stopped."""
    settings = [f"{key.split('.')[1]}-{value}" for key, value in step.settings.items() if key != "training.updates"]
    return arguments.directory / "-".join([*(settings or ["recipe"]), str(seed)])


def settings_of(arguments: argparse.Namespace) -> dict:
    """The settings that all results have in common."""
    return {"data": "multi30k en-de", "vocab_size": arguments.vocab_size}


def recorded(config: Config) -> dict:
    """All settings that a result depends on, by ``section.key``; init_from only where a training begins with it."""
    tables = config.to_dict()
    return {
        f"{section}.{key}": value
        for section in ("model", "data", "training", "translation")
        for key, value in tables[section].items()
        if key not in IGNORED and (key, value) != ("init_from", "")
    }


def train_and_score(step: Step, seed: int, arguments: argparse.Namespace) -> dict:
    """Train with one seed; translate the validation set with the last checkpoint, and with the mean of the last ten."""
    config = config_of(step, seed, arguments)
    trainer = Trainer(config, progress=False)
    run_to_end(trainer)
    valid = [line for line in read_metrics(trainer.folder.metrics) if line["kind"] == "valid"]
    text = read_parallel(config.data.valid_src, config.data.valid_tgt)
    return {
        "name": step.run,
        "seed": seed,
        "val": {str(count): scores(config, count, *text) for count in MEANS_OF},
        "nll": valid[-1]["nll"],
        "updates": config.training.updates,
        "parameters": parameter_count(trainer.config.model),
        "command": f'{PROGRAM} --only "{step.run}" --seed {seed}',
        "config": recorded(config),
        "settings": settings_of(arguments),
        "machine": machine_facts(),
    }


def scores(config: Config, count: int, sources: Sequence[str], references: Sequence[str]) -> dict:
    """Scores of the mean of the last ``count`` checkpoints, with the recipe's beam: sacreBLEU, and BLEU of
    `moses_lower`."""
    model, tokenizer = mean_of_last(config, count).build(config.execution.device)
    sides = translate_lines(model, tokenizer, sources, config.translation), references
    bleu = corpus_bleu(*sides)
    lower = corpus_bleu(*([moses_lower(line) for line in side] for side in sides), tokenize="none")
    return {"bleu": bleu.score, "lower": lower.score, "signature": bleu.signature}


def moses_lower(line: str) -> str:
    """A line as papers on Multi30k score it: plain punctuation, lower case, Moses' words; compounds stay whole."""
    return moses_tokens(normalize_punctuation(line, "de").lower(), "de").replace(" ##AT##-##AT## ", "-")
