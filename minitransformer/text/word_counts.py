"""How often each word of a text occurs: what byte-pair encoding learns from."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from minitransformer.text.corpus import blocks_of_lines, lines_of
from minitransformer.text.pretokenizers import PRETOKENIZERS, PreTokenizer, utf8
from minitransformer.text.processes import map_in_processes

PART = 1 << 23
"""Bytes of text that one process counts at a time."""

Task = tuple[bytes, str | Path, int, str]
"""Some lines, their file, the number of the first one, and the mode."""


def count_words(lines: Iterable[str], pretokenizer: PreTokenizer) -> Counter[str]:
    """How often each word occurs; DataError if one contains a lone surrogate, which UTF-8 cannot encode.

    Chunks between spaces are counted first, and only the distinct ones are split into words.
    """
    return _words_of(_count_chunks(lines, pretokenizer), pretokenizer)


def count_words_in_files(
    paths: Sequence[str | Path], mode: str, processes: int = 1, progress: bool = False
) -> Counter[str]:
    """`count_words` of all lines of several files, counted by several processes.

    mode: a key of PRETOKENIZERS
    progress: show a progress bar

    Raises:
        DataError: as `read_lines`.
    """
    chunks: Counter[str] = Counter()
    with tqdm(desc="words", unit="B", unit_scale=True, disable=not progress) as bar:
        for found, size in map_in_processes(_count_part, _parts(paths, mode), processes):
            chunks.update(found)
            bar.update(size)
    return _words_of(chunks, PRETOKENIZERS[mode])


def _count_chunks(lines: Iterable[str], pretokenizer: PreTokenizer) -> Counter[str]:
    chunks: Counter[str] = Counter()
    for line in lines:
        chunks.update(pretokenizer.chunks(line))
    return chunks


def _words_of(chunks: Counter[str], pretokenizer: PreTokenizer) -> Counter[str]:
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in pretokenizer.split(chunk):
            words[word] += count
    for word in words:
        utf8(word)
    return words


def _parts(paths: Iterable[str | Path], mode: str) -> Iterator[Task]:
    for path in paths:
        number = 1
        for block in blocks_of_lines(path, PART):
            yield block, path, number, mode
            number += block.count(b"\n")


def _count_part(task: Task) -> tuple[Counter[str], int]:
    block, path, number, mode = task
    return _count_chunks(lines_of(block, path, number), PRETOKENIZERS[mode]), len(block)
