"""How often each word of a text occurs: what byte-pair encoding learns from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from minitransformer.text.corpus import check_lines, stream_lines
from minitransformer.text.pretokenizers import PRETOKENIZERS, PreTokenizer, utf8
from minitransformer.text.processes import in_chunks, map_in_processes


def count_words(lines: Iterable[str], pretokenizer: PreTokenizer) -> Counter[str]:
    """How often each word occurs; DataError if one contains a lone surrogate, which UTF-8 cannot encode.

    Chunks between spaces are counted first, and only the distinct ones are split into words.
    """
    return _words_of(_count_chunks(check_lines(lines, "tokenizer"), pretokenizer), pretokenizer)


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
    rows = zip(chain.from_iterable(map(stream_lines, paths)))
    tasks = ((some, mode) for some in in_chunks(rows))
    with tqdm(desc="words", unit="line", unit_scale=True, disable=not progress) as bar:
        for found, n_lines in map_in_processes(_count_task, tasks, processes):
            chunks.update(found)
            bar.update(n_lines)
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


def _count_task(task: tuple[list[tuple[str]], str]) -> tuple[Counter[str], int]:
    rows, mode = task
    return _count_chunks(chain.from_iterable(rows), PRETOKENIZERS[mode]), len(rows)
