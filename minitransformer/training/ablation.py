"""What checkpoint averaging, beam search and the length penalty each add to BLEU  [sec. 6.1]."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minitransformer.checkpoints import average_checkpoints, newest_checkpoints
from minitransformer.config import TranslationConfig
from minitransformer.errors import CheckpointError
from minitransformer.generation import translate_lines


@dataclass(frozen=True)
class AblationEntry:
    """One row of the table: its name, the search options, all translations, and the seconds that these took."""

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
    """The last checkpoint with greedy search; then, each in addition to those before: the mean of the ``last`` newest
    checkpoints; beam search; the length penalty.

    directory: the training.directory of a run
    progress: show a bar for each entry, in sentences
    search: options of a TranslationConfig for the last entry (default: what the run's config says)

    Raises:
        CheckpointError: fewer checkpoints than ``last``, or they hold no tokenizer.
        ConfigError: a search option is out of range.
    """
    paths = newest_checkpoints(directory, last)
    newest, mean = average_checkpoints(paths[-1:]), average_checkpoints(paths)
    search = mean.search(**search)
    greedy = replace(search, beam_size=1, alpha=0.0)
    for name, checkpoint, used in (
        ("last checkpoint", newest, greedy),
        (f"mean of the last {last}", mean, greedy),
        (f"beam of {search.beam_size}", mean, replace(search, alpha=0.0)),
        (f"length penalty {search.alpha:g}", mean, search),
    ):
        model, tokenizer = checkpoint.build(device)
        if tokenizer is None:
            raise CheckpointError(
                "ablation: the checkpoints must have a tokenizer, got a model that was trained on ids alone"
            )
        began = time.perf_counter()
        hypotheses = translate_lines(model, tokenizer, sources, used, progress=progress)
        yield AblationEntry(name, used, hypotheses, time.perf_counter() - began)
