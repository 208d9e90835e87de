"""Initial parameters from elsewhere (``training.init_from``): another run's, for fine-tuning, or word vectors."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from minitransformer.backend import to_numpy
from minitransformer.checkpoints import load_checkpoint, newest_checkpoints
from minitransformer.checkpoints.same_run import changed_settings
from minitransformer.config import Config
from minitransformer.errors import CheckpointError, DataError, printable, quote
from minitransformer.files import MAX_LINE
from minitransformer.models import Model
from minitransformer.text import PieceTokenizer, Tokenizer
from minitransformer.text.pretokenizers import END
from minitransformer.text.sentencepiece import SPACE
from minitransformer.text.tokenizer import SPECIALS

TABLES = ("embedding", "tgt_embedding.table", "tgt_embedding", "projection", "output_bias")
"""Parameters that have a row, or a number, for each token."""
LARGEST = 1e30
"""Limit of the numbers in word vectors, so that the sum of their squares is finite."""
MAY_DIFFER = set("vocab_size p_drop p_drop_attention p_drop_ffn label_smoothing dtype".split())
"""Keys of [model] that do not change what the parameters mean."""


def initialize(model: Model, tokenizer: Tokenizer | None, path: str) -> str:
    """Copy what ``path`` holds into a new model; the rest keeps its random values. Returns one line that says what.

    path: "", which does nothing; a checkpoint, or the folder of a run, of a model of the same shape, perhaps with
        another vocabulary, whose tokens are then matched by their text; or word vectors, a text file ``.vec`` with a
        word and d_model numbers in each line

    Raises:
        CheckpointError: no checkpoint, or one of a model with other settings.
        DataError: word vectors that are not of this form, or of another width; or none of the words is a token.
    """
    if not path:
        return ""
    if Path(path).suffix == ".vec":
        return _from_word_vectors(model, tokenizer, path)
    return _from_checkpoint(model, tokenizer, path)


def _from_checkpoint(model: Model, tokenizer: Tokenizer | None, path: str) -> str:
    (file,) = newest_checkpoints(path, 1) if Path(path).is_dir() else [path]
    checkpoint = load_checkpoint(file, with_optimizer=False)
    theirs, new = checkpoint.tokenizer_text, tokenizer.dumps() if tokenizer else ""
    for key, stored, wanted in changed_settings(checkpoint.config, Config(model=model.config)):
        section, _, name = key.partition(".")
        if section == "model" and name not in MAY_DIFFER:
            raise CheckpointError(
                f"train: {key} must be {quote(stored)} to begin with the parameters of {path}, got {quote(wanted)}"
            )
    if theirs == new or not (theirs and new):
        checkpoint.restore(model)
        return f"train: the initial parameters are those of {path}"
    old, old_tokenizer = checkpoint.build()  # which checks that its parameters, settings and vocabulary fit
    for name in model.parameters.names:
        values, rows = old.parameters[name].data, ...
        if name in TABLES:
            old_ids, rows = _matching_rows(old_tokenizer, tokenizer, name)
            values = values[old_ids]
        _copy(model, name, values, rows)
    n_both = len(_matching_rows(old_tokenizer, tokenizer, TABLES[-1])[0])
    return (
        f"train: the initial parameters are those of {path}; {n_both} of {tokenizer.vocab_size} tokens are in both "
        "vocabularies, the rows of the others are random"
    )


def _symbols(tokenizer: Tokenizer, table: str) -> list[str]:
    """What the rows of a table stand for, after those of the special tokens."""
    has_two = tokenizer.src_vocab_size > 0
    return tokenizer.pieces[0] if has_two and table == TABLES[0] else tokenizer.symbols


def _matching_rows(old: Tokenizer, new: Tokenizer, table: str) -> tuple[list[int], list[int]]:
    """(old ids, new ids) of the special tokens and of each symbol that both vocabularies have."""
    first, ours, theirs = len(SPECIALS), _symbols(new, table), _symbols(old, table)
    places = {symbol: number for number, symbol in enumerate(theirs, first)} if old.mode == new.mode else {}
    both = [(places[symbol], number) for number, symbol in enumerate(ours, first) if symbol in places]
    return [*range(first), *(pair[0] for pair in both)], [*range(first), *(pair[1] for pair in both)]


def _from_word_vectors(model: Model, tokenizer: Tokenizer | None, path: str) -> str:
    if tokenizer is None:
        raise DataError(f"train: training.init_from {path} must be used with a tokenizer, got ids alone")
    words = {  # of the rows of each table, after those of the special tokens
        name: [_word_of(symbol, tokenizer.mode) for symbol in _symbols(tokenizer, name)]
        for name in TABLES[:3]
        if name in model.parameters.names
    }
    known, width = set(chain(*words.values())) - {""}, model.config.d_model
    vectors = {word: vector for word, vector in _word_vectors(path, width) if word in known}
    if not vectors:
        raise DataError(f"train: {path} must have at least one word that is a token of the vocabulary, got none")
    values, places = np.stack(list(vectors.values())), {word: place for place, word in enumerate(vectors)}
    values *= width**-0.5 / max(np.sqrt(np.mean(np.square(values))), 1e-30)
    for name, of_rows in words.items():
        rows = [number for number, word in enumerate(of_rows, len(SPECIALS)) if word in vectors]
        _copy(model, name, values[[places[word] for word in of_rows if word in vectors]], rows)
    return (
        f"train: the embeddings of {len(rows)} of {tokenizer.vocab_size} tokens start as the vectors of {path}, scaled "
        "to the deviation d_model^-0.5 of the others"
    )


def _word_of(symbol: str, mode: str) -> str:
    """The word that a symbol spells, with or without the space before it; "" if it is a part of a character or word."""
    if mode == "words":
        return symbol.removesuffix(END) if symbol.endswith(END) else ""
    if mode == PieceTokenizer.mode:
        return symbol.removeprefix(SPACE)
    try:
        return symbol.encode("latin-1").decode("utf-8").strip()
    except UnicodeDecodeError:
        return ""


def _word_vectors(path: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
    """(word, vector) of each line; a first line of two numbers is a heading, as fastText writes it."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
                # Bytes: a word may contain spaces that only Unicode knows. What is beyond d_model stays one part.
                parts = line.split(maxsplit=width + 1)
                if number == 1 and len(parts) == 2:
                    continue
                try:
                    word, *numbers = parts[0].decode("utf-8", errors="replace"), *map(float, parts[1:])
                except (IndexError, ValueError):
                    numbers = []
                if len(numbers) != width or not all(abs(each) <= LARGEST for each in numbers):  # nor NaN
                    raise DataError(
                        f"{path}:{number}: must be a word and d_model = {width} numbers within {LARGEST:g}, got "
                        f"{quote(printable(line.decode('utf-8', errors='replace').strip(), 40))}"
                    )
                yield word, np.array(numbers)
    except OSError as error:
        raise DataError(f"train: training.init_from {path} cannot be read: {error.strerror}") from error


def _copy(model: Model, name: str, values: np.ndarray, rows) -> None:
    data = to_numpy(model.parameters[name].data).copy()
    data[rows] = values
    model.parameters[name].data[...] = model.xp.asarray(data)
