"""The two tasks of crossover.py, Multi30k and parsing: what is learned, in which shape, and what is scored."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.paper.recurrent_tasks import MULTI30K, corpus_of, of_size
from examples.parsing.train import prepare, scores, word_dropout
from minitransformer.config import Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig, TranslationConfig
from minitransformer.evaluation import corpus_bleu
from minitransformer.generation import translate_lines
from minitransformer.models import Model
from minitransformer.planning import parameter_count
from minitransformer.text import read_parallel
from minitransformer.training import Corpus, Trainer

CRAFT = Path("data/craft_trees")


@dataclass(frozen=True)
class Task:
    """sizes: of the vocabularies, keys of [model]   score: with greedy search   prepare: called with each Trainer"""

    corpus: Corpus
    sizes: dict
    score: Callable[[Config, Model], float]
    prepare: Callable[[Trainer], None] = lambda trainer: None


def multi30k(settings: dict, is_test: bool) -> Task:
    """English to German; BLEU on val or on test_2016_flickr."""
    corpus = corpus_of("Multi30k", 1, settings)
    part = "test_2016_flickr" if is_test else "val"
    sources, references = read_parallel(MULTI30K / f"{part}.en", MULTI30K / f"{part}.de")

    def bleu(config: Config, model: Model) -> float:
        lines = translate_lines(model, corpus.tokenizer, sources, TranslationConfig(beam_size=1))
        return round(corpus_bleu(lines, references).score, 3)

    return Task(corpus, {"vocab_size": corpus.tokenizer.vocab_size}, bleu)


def parsing(settings: dict, is_test: bool) -> Task:
    """Words to the tokens of their tree; F1 on CRAFT's development or test set, searched with the grammar."""
    part = "test" if is_test else "dev"
    bank, corpus, trees = prepare(CRAFT, settings["form"], part)
    sizes = {"src_vocab_size": bank.words.n_ids, "vocab_size": bank.grammar.n_ids, "tie_embeddings": False}

    def f1(config: Config, model: Model) -> float:
        return scores(config, bank, model, trees[part], beam_size=1)["f1"]

    return Task(corpus, sizes, f1, word_dropout(bank))


TASKS = {"Multi30k": multi30k, "parsing": parsing}


def task_of(name: str, settings: dict, is_test: bool = False) -> Task:
    return TASKS[name](settings["tasks"][name], is_test)


def model_config(name: str, model: str, sizes: dict, settings: dict) -> ModelConfig:
    """The Transformer of ``settings``, or the recurrent model that has nearly as many parameters."""
    width, shared = settings["width"], {**sizes, "p_drop": settings["p_drop"]}
    shape = {"n_layers": settings["tasks"][name]["n_layers"], "d_ff": 4 * width, "n_heads": width // 16}
    changes = settings["models"][model]
    if changes.get("kind") != "recurrent":
        return ModelConfig(**shared, **shape, d_model=width, **changes)
    wanted = parameter_count(ModelConfig(**shared, **shape, d_model=width))
    return of_size(wanted, 2 * width, lambda d_model: ModelConfig(**shared, d_model=d_model, **changes))


def updates_of(name: str, model: str, minutes: float, settings: dict) -> int:
    """The number of updates that take this many minutes."""
    return max(round(60 * minutes / settings["update_seconds"][f"{name}, {model}"]), 1)


def config_of(name: str, model: str, sizes: dict, seed: int, rate: float, folder: Path, settings: dict) -> Config:
    """The config of a training, whose folder has its seed and its learning rate in its name."""
    tokens = settings["tasks"][name]["tokens"]
    return Config(
        model=model_config(name, model, sizes, settings),
        data=DataConfig(src_tokens=tokens * 5 // 4, tgt_tokens=tokens),  # the target side fills up first
        training=TrainingConfig(
            directory=str(folder / f"{name}-{model}-{settings['width']}-{seed}-{rate:g}"),
            seed=seed,
            micro_batches=settings["tasks"][name]["micro_batches"],
            threads=1,
            warmup_steps=settings["warmup_steps"],
            learning_rate=rate,
            clip_norm=1.0,
            validate_every=10**6,  # the last update is validated anyway
            save_every=settings["save_every"],
            keep_checkpoints=1,
        ),
        execution=ExecutionConfig(device="cpu"),  # minutes are those of one core
    )
