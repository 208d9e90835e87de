"""From lines to translated lines, through tokenizer and search."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from tqdm import tqdm

from minitransformer.allocator import keep_freed_memory
from minitransformer.batch import pad_rows
from minitransformer.config import BOS, EOS, TranslationConfig
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.generation.beam import beam_search
from minitransformer.generation.greedy import greedy_search
from minitransformer.generation.hypothesis import Hypothesis
from minitransformer.models import Model
from minitransformer.text import Tokenizer
from minitransformer.text.corpus import check_lines

FIRST_BATCHES, BLOCK_BATCHES = 8, 64
"""Batches in the first block of `search_blocks`, which comes soon, and in the largest. Each block has twice as many as
the one before, since sorting more lines by length needs less padding (figures in benchmarks/notes.md)."""

MAX_SCORES = 1 << 24
"""Maximum number of attention scores per head in a batch, over all its sentences: 64 MiB in float32."""


def translate_lines(
    model: Model, tokenizer: Tokenizer, lines: Sequence[str], config: TranslationConfig, progress: bool = False
) -> list[str]:
    """The translation of each line, as one line. An empty line, or one of spaces alone, gives an empty line.

    Raises: as `search_lines`; DataError if the model generates an id that the tokenizer does not know.
    """
    found = search_lines(model, tokenizer, lines, config, progress=progress)
    return [hypothesis_text(tokenizer, best) for (best,) in found]


def search_blocks(
    model: Model,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    config: TranslationConfig,
    n_best: int = 1,
    progress: bool = False,
    report: Callable[[ShapeError], object] | None = None,
) -> Iterator[list[list[Hypothesis]]]:
    """As `search_lines`, for any number of lines with the memory of one block: yields the hypotheses of each block.

    Blocks grow from about FIRST_BATCHES batches to BLOCK_BATCHES.

    report: called with the error of a line that is too long, whose translation is then an empty line (None: raise it)
    """
    keep_freed_memory()
    with _progress_bar(None, progress) as bar:
        for sources in _blocks(_encode(model, tokenizer, lines, config, report), _budget(config)):
            yield _search_block(model, sources, config, n_best, bar)


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

    config: beam size (1: greedy), length penalty, output limit, longest line, size of a batch
    progress: show a progress bar, in sentences

    Raises:
        ConfigError: n_best is not from 1 to the beam size, or the model is a language model.
        ShapeError: a line is longer than ``config.max_input_length`` or the model's positions, or has ids outside its
            vocabulary; or parameters of the model are NaN, or too large.
    """
    keep_freed_memory()
    sources = list(_encode(model, tokenizer, lines, config))
    with _progress_bar(len(sources), progress) as bar:
        return _search_block(model, sources, config, n_best, bar)


def hypothesis_text(tokenizer: Tokenizer, hypothesis: Hypothesis) -> str:
    """Its text as one line: a line feed that the model generated becomes a space."""
    return tokenizer.decode(hypothesis.ids).replace("\n", " ")


def hypothesis_attention(model: Model, source: Sequence[int], target: Sequence[int]) -> dict[str, np.ndarray]:
    """What the model attends to as it generates a target, such as the ids of a `Hypothesis`: the weights of every
    attention, by names such as ``decoder.1.cross_attention``.

    source: ids without EOS; S counts them and their EOS
    target: ids without BOS and EOS; T counts them and BOS. Row t holds the weights with which token t is chosen, the
        last row those of EOS.

    weights: (H, S, S) of the source to itself, (H, T, T) of the target to itself, (H, T, S) of the target to the source

    Raises:
        ConfigError: the model has no attention maps.
        ShapeError: a weight is NaN.
    """
    with np.errstate(all="ignore"):  # damaged parameters end in one ShapeError, not in NumPy's warnings
        maps = model.attention_maps(np.array([[*source, EOS]]), np.array([[BOS, *target]]))
    if not all(np.isfinite(weights).all() for weights in maps.values()):
        raise ShapeError("attention weights must be numbers, got NaN; are the model's parameters damaged?")
    return {name: weights[0] for name, weights in maps.items()}


def _search_block(
    model: Model, sources: list[list[int]], config: TranslationConfig, n_best: int, bar: tqdm
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, in batches, the longest first."""
    found: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
    options = {"max_extra": config.max_extra, "alpha": config.alpha}
    with np.errstate(all="ignore"):  # damaged parameters end in one ShapeError, not in NumPy's warnings
        bar.update(sum(not source for source in sources))
        for rows in _batches(sources, _budget(config)):
            batch = pad_rows([[*sources[row], EOS] for row in rows])  # (B, S)
            if config.beam_size == n_best == 1:
                best = [[hypothesis] for hypothesis in greedy_search(model, batch, **options)]
            else:
                best = beam_search(model, batch, beam_size=config.beam_size, n_best=n_best, **options)
            for row, hypotheses in zip(rows, best, strict=True):
                found[row] = hypotheses
            bar.update(len(rows))
    return found


def _progress_bar(total: int | None, shown: bool) -> tqdm:
    return tqdm(total=total, desc="translate", unit="sentence", disable=not shown)


def _budget(config: TranslationConfig) -> int:
    """Padded source tokens of a batch."""
    return config.batch_tokens // config.beam_size


def _batches(sources: list[list[int]], budget: int) -> Iterator[list[int]]:
    """Indices of the sources that are not empty, longest first, as many at a time as fit into ``budget`` padded tokens
    (EOS counts) and into MAX_SCORES attention scores of a head, B * S * S, but at least one."""
    rows = sorted((row for row, source in enumerate(sources) if source), key=lambda row: -len(sources[row]))
    while rows:
        length = len(sources[rows[0]]) + 1
        n = max(1, min(budget, MAX_SCORES // length) // length)
        yield rows[:n]
        rows = rows[n:]


def _blocks(sources: Iterable[list[int]], budget: int) -> Iterator[list[list[int]]]:
    """The sources in blocks of roughly whole batches; a batch has ``budget`` tokens (EOS counts)."""
    block, n_tokens, size = [], 0, FIRST_BATCHES * budget
    for source in sources:
        block.append(source)
        n_tokens += len(source) + 1
        if n_tokens >= size:
            yield block
            block, n_tokens, size = [], 0, min(2 * size, BLOCK_BATCHES * budget)
    if block:
        yield block


def _encode(
    model: Model,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    config: TranslationConfig,
    report: Callable[[ShapeError], object] | None = None,
) -> Iterator[list[int]]:
    """The ids of each line; one that is too long is reported and gives none, or raises if ``report`` is None."""
    if getattr(model, "is_decoder_only", False):  # an ensemble that only behaves like a Model need not have it
        raise ConfigError(
            "translate: the model must have an encoder, got a language model; call generate of minitransformer.load"
        )
    limit, reason = config.max_input_length, "translation.max_input_length"
    if model.max_positions is not None and model.max_positions <= limit:
        limit, reason = model.max_positions - 1, f"model.max_positions = {model.max_positions}, EOS takes one"
    # Only this much of a line of gigabytes is encoded: it has more tokens than the limit, unless it is white space.
    enough = (limit + 1) * tokenizer.longest_symbol
    for number, line in enumerate(check_lines(lines, "translate"), start=1):
        source = tokenizer.encode(line[:enough]) if line.strip() else []
        if len(source) <= limit and len(line) > enough:
            source = tokenizer.encode(line)
        if len(source) > limit:
            error = ShapeError(
                f"translate: line {number} must have at most {limit} tokens ({reason}), got at least {len(source)}; "
                "shorten or split it"
            )
            if report is None:
                raise error
            report(error)
            source = []
        yield source
