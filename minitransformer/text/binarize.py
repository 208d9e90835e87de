"""Encode aligned text files into a folder of binarized pairs, as a stream and with several processes."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import chain, product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from minitransformer.errors import DataError
from minitransformer.files import staging_folder, write_error
from minitransformer.text import binary
from minitransformer.text.binary import BinaryHeader, FlatSentences
from minitransformer.text.corpus import stream_parallel
from minitransformer.text.pairs import check_some_are_left, encode_pairs
from minitransformer.text.processes import in_chunks, map_in_processes
from minitransformer.text.tokenizer import Tokenizer

cached_tokenizer = lru_cache(1)(Tokenizer.loads)
"""One tokenizer for all tasks of a process, because it caches the words that it has encoded."""

Part = tuple[tuple[FlatSentences, FlatSentences], Counter[str]]
"""Some pairs, which pickle to fewer bytes than lists of integers do, and the header's counts for them."""


def binarize(
    tokenizer: Tokenizer,
    files: Sequence[tuple[str | Path, str | Path]],
    folder: str | Path,
    *,
    max_length: int = 256,
    processes: int = 1,
    progress: bool = False,
) -> BinaryHeader:
    """Encode aligned files, in the given order, into ``folder``, which `binary.open_pairs` opens.

    Pairs are left out and counted as in `pairs.encode_parallel`.

    files: any number of (source file, target file)
    max_length: maximum number of tokens of a sentence including EOS
    progress: show a progress bar

    Raises:
        DataError: as for `read_parallel`; the folder exists or cannot be written; or no pair is left. No partial folder
            remains.
    """
    folder, text, n_ids = Path(folder), tokenizer.dumps(), max(tokenizer.vocab_size, tokenizer.src_vocab_size)
    if os.path.lexists(folder):  # also a broken link
        raise DataError(f"binarize: {folder} must not exist yet; delete it or choose another name")
    pairs = chain.from_iterable(stream_parallel(src, tgt) for src, tgt in files)
    tasks = ((text, max_length, some) for some in in_chunks(pairs))
    try:
        with staging_folder(folder) as partial:
            counts = _write_ids(partial, map_in_processes(_encode, tasks, processes), n_ids, progress)
            check_some_are_left("binarize", counts["pairs"], counts["n_empty"], counts["n_long"], max_length)
            facts = {"vocab_size": n_ids, "tokenizer_sha256": binary.sha256_of(text), "max_length": max_length}
            header = BinaryHeader(**facts, **counts, fingerprint="")
            header = replace(header, fingerprint=binary.fingerprint_of(binary.open_sides(partial, header)))
            content = json.dumps({"format": binary.FORMAT, "version": binary.VERSION, **asdict(header)}, indent=1)
            (partial / binary.HEADER).write_text(content + "\n", encoding="utf-8")
            partial.rename(folder)
    except OSError as error:
        raise DataError(f"binarize: {folder} {write_error(error)}") from error
    return header


def _write_ids(folder: Path, parts: Iterable[Part], vocab_size: int, progress: bool) -> Counter[str]:
    """Write the files of both sides; returns the sums of the counts."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack, tqdm(desc="encode", unit="pair", disable=not progress) as bar:
        files = {
            (side, kind): stack.enter_context(open(folder / f"{side}.{kind}", "xb"))
            for side, kind in product(binary.SIDES, ("ids", "ends"))
        }
        for sides, found in parts:
            for side, sentences in zip(binary.SIDES, sides, strict=True):
                ends = sentences.ends + np.uint64(counts[f"n_{side}_tokens"])
                files[side, "ids"].write(sentences.ids.astype(binary.id_type(vocab_size)))
                files[side, "ends"].write(ends.astype(binary.ENDS))
            counts.update(found)
            bar.update(found["pairs"] + found["n_empty"] + found["n_long"])
    return counts


def _encode(task: tuple[str, int, list[tuple[str, str]]]) -> Part:
    text, max_length, pairs = task
    kept = encode_pairs(cached_tokenizer(text), pairs, max_length)
    src, tgt = sides = FlatSentences.of(kept.src), FlatSentences.of(kept.tgt)
    n_tokens = {"n_src_tokens": len(src.ids), "n_tgt_tokens": len(tgt.ids)}
    return sides, Counter(pairs=len(src), n_empty=kept.n_empty, n_long=kept.n_long, **n_tokens)
