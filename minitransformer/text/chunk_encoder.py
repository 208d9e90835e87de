"""Ids of many lines at once: chunks between spaces are looked up in a cache, and ids are kept in arrays."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice

import numpy as np

from minitransformer.text.pretokenizers import PreTokenizer

CACHE_SIZE, CACHED_LENGTH = 500_000, 64
"""How many words, or chunks between spaces, have their subwords cached, and the most characters they may have: some
200 MB. A full cache is emptied."""

BLOCK_LINES = 1000
"""Lines that are split into chunks at once."""

LINE_END, AMBIGUOUS = -1, -2
"""In place of ids: the end of a line, and a chunk that may share a word with its neighbours."""

Block = tuple[np.ndarray, np.ndarray]
"""The ids of some lines, concatenated, and the length of each line."""


class ChunkEncoder:
    """Encodes lines by ``encode_words`` (text -> ids), which is called for each chunk that is not in the cache.

    n_ids: ids are smaller than this
    """

    def __init__(self, pretokenizer: PreTokenizer, encode_words: Callable[[str], tuple[int, ...]], n_ids: int):
        self.pretokenizer, self.encode_words = pretokenizer, encode_words
        self._ids_of = Cached(self._encode_chunk)
        self._numbers = np.arange(n_ids).astype(object)  # lists share these integers, and need not make their own

    def line(self, line: str) -> list[int]:
        ids = list(chain.from_iterable(map(self._ids_of.__getitem__, self.pretokenizer.chunks(line))))
        return ids if min(ids, default=0) >= 0 else list(self.encode_words(line))

    def blocks(self, lines: Iterable[str]) -> Iterator[Block]:
        return map(self._encode_block, in_groups(lines, BLOCK_LINES))

    def as_lists(self, blocks: Iterable[Block]) -> list[list[int]]:
        """The ids of each line."""
        found = []
        with _without_collector():
            for ids, lengths in blocks:
                numbers, ends = self._numbers[ids].tolist(), np.cumsum(lengths).tolist()
                found += [numbers[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        return found

    def _encode_block(self, lines: list[str]) -> Block:
        chunks = self.pretokenizer.chunks_of_lines(lines)
        ids = np.fromiter(chain.from_iterable(map(self._ids_of.__getitem__, chunks)), dtype=np.int32)
        ends = np.flatnonzero(ids == LINE_END)
        if len(ends) == len(lines):
            odd = np.unique(np.searchsorted(ends, np.flatnonzero(ids == AMBIGUOUS)))
            if len(odd):
                of_lines = np.split(ids, ends + 1)
                for i in odd.tolist():
                    of_lines[i] = np.array([*self.encode_words(lines[i]), LINE_END], dtype=np.int32)
                ids = np.concatenate(of_lines)
                ends = np.flatnonzero(ids == LINE_END)
            return ids[ids >= 0], np.diff(ends, prepend=-1) - 1
        if len(lines) == 1:
            ids = np.array(self.encode_words(lines[0]), dtype=np.int32)
            return ids, np.array([len(ids)])
        half = len(lines) // 2  # finds the lines that cannot be told from their neighbours
        return joined(map(self._encode_block, (lines[:half], lines[half:])))

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        if chunk == self.pretokenizer.line_end:
            return (LINE_END,)
        return (AMBIGUOUS,) if self.pretokenizer.is_ambiguous(chunk) else self.encode_words(chunk)


class Cached(dict):
    """Results of ``function`` by argument: tuples of strings or integers, which the garbage collector does not track.

    A full cache is emptied. An LRU cache was slower: in a text with more distinct words than it has room for, each word
    is evicted before it occurs again (benchmarks/notes.md).
    """

    def __init__(self, function: Callable[[str], tuple]):
        super().__init__()
        self.function = function

    def __missing__(self, argument: str) -> tuple:
        if len(self) >= CACHE_SIZE:
            self.clear()
        result = self.function(argument)
        if len(argument) <= CACHED_LENGTH:
            self[argument] = result
        return result


def joined(blocks: Iterable[Block]) -> Block:
    nothing = np.empty(0, np.int32), np.empty(0, np.int64)
    ids, lengths = map(np.concatenate, zip(nothing, *blocks, strict=True))
    return ids, lengths


def in_groups(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of ``size`` lines; the last one may be shorter."""
    lines = iter(lines)
    return iter(lambda: list(islice(lines, size)), [])


@contextmanager
def _without_collector() -> Iterator[None]:
    """Collect no garbage meanwhile: millions of new lists would be searched for cycles again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
