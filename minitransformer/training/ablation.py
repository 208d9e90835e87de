"""What each trick after training adds to BLEU: the mean of checkpoints, the beam, the length penalty  [sec. 6.1]."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minitransformer.checkpoints.average import average_checkpoints
from minitransformer.checkpoints.checkpoint import Checkpoint
from minitransformer.checkpoints.run_folder import newest_checkpoints
from minitransformer.config import TranslationConfig
from minitransformer.errors import CheckpointError
from minitransformer.generation import translate_lines


@dataclass(frozen=True)
class AblationEntry:
    """One more trick: ``name``, how it searched, and all translations. ``seconds``: that the translations took"""

    name: str
    search: TranslationConfig
    hypotheses: list[str]
    seconds: float


def ablation(
    directory: str | Path,
    sources: Sequence[str],
    *,
    last: int = 5,
    device: str = "cpu",
    progress: bool = False,
    **search: Any,
) -> Iterator[AblationEntry]:
    """The last checkpoint with greedy search, then one trick more in each entry: the mean of the ``last`` newest
    checkpoints; the beam; the length penalty.

    directory: the training.directory of a run
    progress: show a bar for each entry, in sentences
    search: options of a TranslationConfig for the last entry (default: what the run's config says)

    Raises:
        CheckpointError: fewer checkpoints than ``last``, or they hold no tokenizer.
        ConfigError: a search option is out of range.
    """
    paths = newest_checkpoints(directory, last)
    newest, mean = average_checkpoints(paths[-1:]), average_checkpoints(paths)
    search = replace(mean.config.translation, **search)
    greedy = replace(search, beam_size=1, alpha=0.0)
    for name, checkpoint, used in (
        ("last checkpoint", newest, greedy),
        (f"mean of the last {last}", mean, greedy),
        (f"beam of {search.beam_size}", mean, replace(search, alpha=0.0)),
        (f"length penalty {search.alpha:g}", mean, search),
    ):
        yield _translated(name, checkpoint, sources, used, device, progress)


def _translated(
    name: str, checkpoint: Checkpoint, sources: Sequence[str], search: TranslationConfig, device: str, progress: bool
) -> AblationEntry:
    model, tokenizer = checkpoint.build(device)
    if tokenizer is None:
        raise CheckpointError(
            "ablation: the checkpoints must have a tokenizer, got a model that was trained on ids alone"
        )
    began = time.perf_counter()
    hypotheses = translate_lines(model, tokenizer, sources, search, progress=progress)
    return AblationEntry(name, search, hypotheses, time.perf_counter() - began)
