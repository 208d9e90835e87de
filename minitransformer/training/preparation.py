"""What is settled before a run begins: its vocabulary, its device, its ranks and threads."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np

from minitransformer.backend import load_array_module
from minitransformer.config import Config, TrainingConfig
from minitransformer.distributed import Communicator, ProcessGroup
from minitransformer.errors import ConfigError
from minitransformer.training.corpus import Corpus
from minitransformer.workers import Workers


def with_vocabulary(config: Config, corpus: Corpus) -> Config:
    """``config`` with model.vocab_size taken from the tokenizer; checks what would otherwise fail hours later."""
    model, tokenizer = config.model, corpus.tokenizer
    pieces = tokenizer.vocab_size if tokenizer else model.vocab_size
    if pieces == 0:
        raise ConfigError("model.vocab_size must be given for a corpus of ids, got 0")
    if model.vocab_size not in (0, pieces):
        raise ConfigError(
            f"model.vocab_size must be the tokenizer's {pieces}, got {model.vocab_size}; leave it out or make it equal"
        )
    if model.positions == "learned" and corpus.longest() > model.max_positions:
        raise ConfigError(
            f"model.max_positions must be at least the longest sentence, {corpus.longest()} tokens with its end mark, "
            f"got {model.max_positions}; raise it or lower data.max_length"
        )
    return replace(config, model=replace(model, vocab_size=pieces))


def connected(process_group: ProcessGroup, settings: TrainingConfig) -> tuple[ModuleType, Communicator]:
    """The array library of this rank, and its communicator."""
    if settings.device != "cpu":
        process_group.use_own_gpu()
    xp = load_array_module(settings.device)
    return xp, process_group.connect(settings, on_gpu=xp is not np)


def workers_for(settings: TrainingConfig, n_ranks: int, on_cpu: bool) -> Workers:
    """Threads for the micro-batches of one rank; several ranks have the cores of their machine to share already."""
    shares = -(-settings.micro_batches // n_ranks) if on_cpu else 1
    return Workers.for_shares(shares, settings.threads or (0 if n_ranks == 1 else 1))
