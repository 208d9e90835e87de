"""From lines to translated lines, through tokenizer and search."""

from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from minitransformer.allocator import keep_freed_memory
from minitransformer.config import BOS, EOS, TranslationConfig
from minitransformer.errors import ShapeError
from minitransformer.generation.beam import beam_search
from minitransformer.generation.greedy import greedy_search
from minitransformer.generation.hypothesis import Hypothesis
from minitransformer.models import Model
from minitransformer.text import Tokenizer
from minitransformer.text.batching import pad_rows


def translate_lines(
    model: Model,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    config: TranslationConfig,
    n_best: int = 1,
    progress: bool = False,
) -> list[str] | list[list[str]]:
    """The translation of each line; with n_best above 1 a list of up to n_best translations of each, best first.

    The translation of an empty line, or of spaces alone, is an empty line. A translation is one line: a line feed
    that the model generates becomes a space.

    Raises: as `search_lines`; DataError if the model generates an id that the tokenizer does not know.
    """
    found = search_lines(model, tokenizer, lines, config, n_best, progress)
    texts = [[tokenizer.decode(h.ids).replace("\n", " ") for h in hypotheses] for hypotheses in found]
    return texts if n_best > 1 else [hypotheses[0] for hypotheses in texts]


def search_lines(
    model: Model,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    config: TranslationConfig,
    n_best: int = 1,
    progress: bool = False,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each line, best first, in the order of the lines.

    Lines of about equal length are searched together, the longest first: a batch too large for the memory fails at
    once, and the progress bar overestimates the time left rather than underestimating it.

    config: beam size (1: greedy), length penalty, output limit, size of a batch
    progress: show a progress bar, in sentences

    Raises:
        ConfigError: n_best is not from 1 to the beam size.
        ShapeError: a line is longer than the model's positions, or has ids outside its vocabulary; or parameters of the
            model are NaN, or too large.
    """
    keep_freed_memory()
    sources = [tokenizer.encode(line) if line.strip() else [] for line in lines]
    _check_lengths(model, sources)
    found: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
    bar = tqdm(total=len(lines), desc="translate", unit="sentence", disable=not progress)
    with bar, np.errstate(all="ignore"):  # damaged parameters end in one ShapeError, not in NumPy's warnings
        bar.update(sum(not source for source in sources))
        for rows in _batches(sources, config.batch_tokens // config.beam_size):
            batch = pad_rows([[*sources[row], EOS] for row in rows])  # (B, S)
            for row, hypotheses in zip(rows, _search(model, batch, config, n_best), strict=True):
                found[row] = hypotheses
            bar.update(len(rows))
    return found


def hypothesis_attention(model: Model, source: Sequence[int], target: Sequence[int]) -> dict[str, np.ndarray]:
    """What the model attends to as it generates a target, such as the ids of a `Hypothesis`: the weights of every
    attention, by names such as ``decoder.1.cross_attention``.

    source: ids without EOS; S counts them and their EOS
    target: ids without BOS and EOS; T counts them and BOS. Row t holds the weights with which token t is chosen, the
        last row those of EOS.

    weights: (H, S, S) of the source to itself, (H, T, T) of the target to itself, (H, T, S) of the target to the source

    Raises:
        ConfigError: the model has no attention maps.
    """
    maps = model.attention_maps(np.array([[*source, EOS]]), np.array([[BOS, *target]]))
    return {name: weights[0] for name, weights in maps.items()}


def _search(model: Model, batch: np.ndarray, config: TranslationConfig, n_best: int) -> list[list[Hypothesis]]:
    options = {"max_extra": config.max_extra, "alpha": config.alpha}
    if config.beam_size == n_best == 1:
        return [[hypothesis] for hypothesis in greedy_search(model, batch, **options)]
    return beam_search(model, batch, beam_size=config.beam_size, n_best=n_best, **options)


def _batches(sources: list[list[int]], budget: int) -> Iterator[list[int]]:
    """Indices of the sources that are not empty, longest first, as many at a time as fit into ``budget`` padded tokens
    (EOS counts), but at least one."""
    rows = sorted((row for row, source in enumerate(sources) if source), key=lambda row: -len(sources[row]))
    while rows:
        n = max(1, budget // (len(sources[rows[0]]) + 1))
        yield rows[:n]
        rows = rows[n:]


def _check_lengths(model: Model, sources: list[list[int]]) -> None:
    """Find a line that is longer than the model's positions before any work is done."""
    for number, source in enumerate(sources, start=1):
        if model.max_positions is not None and len(source) >= model.max_positions:
            raise ShapeError(
                f"translate: line {number} must have at most {model.max_positions - 1} tokens, as model.max_positions "
                f"= {model.max_positions} and EOS takes one, got {len(source)}; shorten the line"
            )
