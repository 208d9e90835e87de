"""How often each word of a text occurs: what byte-pair encoding learns from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from minitransformer.text.corpus import OPENERS, line_starts, stream_lines, text_size
from minitransformer.text.pretokenizers import PRETOKENIZERS, PreTokenizer, utf8
from minitransformer.text.processes import map_in_processes

PART = 1 << 25
"""Bytes of text that one process counts at a time."""


def count_words(lines: Iterable[str], pretokenizer: PreTokenizer) -> Counter[str]:
    """How often each word occurs; DataError if one contains a lone surrogate, which UTF-8 cannot encode.

    Chunks between spaces are counted first, and only the distinct ones are split into words.
    """
    chunks: Counter[str] = Counter()
    for line in lines:
        chunks.update(pretokenizer.chunks(line))
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in pretokenizer.split(chunk):
            words[word] += count
    for word in words:
        utf8(word)
    return words


def count_words_in_files(
    paths: Sequence[str | Path], mode: str, processes: int = 1, progress: bool = False
) -> Counter[str]:
    """`count_words` of all lines of several files, counted by several processes.

    mode: a key of PRETOKENIZERS
    progress: show a progress bar

    Raises:
        DataError: as `read_lines`.
    """
    parts = [part for path in paths for part in _parts_of(path, mode)]
    words: Counter[str] = Counter()
    total = sum(part.size for part in parts)
    with tqdm(total=total, desc="words", unit="B", unit_scale=True, disable=not progress) as bar:
        counted = map_in_processes(_count_part, parts, min(processes, len(parts)))
        for part, found in zip(parts, counted, strict=True):
            words.update(found)
            bar.update(part.size)
    return words


@dataclass(frozen=True)
class _Part:
    """Whole lines of one file: its bytes from ``start`` to ``stop`` (None: up to the end, as for a compressed file)."""

    path: str | Path
    mode: str
    start: int
    stop: int | None
    size: int


def _parts_of(path: str | Path, mode: str) -> list[_Part]:
    size = text_size(path)
    if Path(path).suffix in OPENERS or size <= PART:
        return [_Part(path, mode, 0, None, size)]
    starts = line_starts(path, -(-size // PART))
    return [_Part(path, mode, start, stop, stop - start) for start, stop in zip(starts, starts[1:], strict=False)]


def _count_part(part: _Part) -> Counter[str]:
    return count_words(stream_lines(part.path, part.start, part.stop), PRETOKENIZERS[part.mode])
