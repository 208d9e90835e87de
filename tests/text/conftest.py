"""Fixtures for tests of text: parallel text with a tokenizer of its own, and its binarized pairs."""

from pathlib import Path

import numpy as np
import pytest

from minitransformer.text import Tokenizer
from minitransformer.text.binarize import binarize


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> tuple[list[tuple[Path, Path]], Tokenizer, list[str], list[str]]:
    """Two pairs of files, a tokenizer, and all lines of either side."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(5)
    lines = [
        " ".join("".join(rng.choice(list("abcde"), rng.integers(1, 7))) for _ in range(rng.integers(0, 30)))
        for _ in range(800)
    ]
    src, tgt = lines[:400], lines[400:]
    files = [(folder / f"{part}.en", folder / f"{part}.de") for part in range(2)]
    for paths, rows in zip(files, (slice(0, 150), slice(150, 400)), strict=True):
        for path, side in zip(paths, (src, tgt), strict=True):
            path.write_text("".join(f"{line}\n" for line in side[rows]), encoding="utf-8")
    return files, Tokenizer.train(lines, 300), src, tgt


@pytest.fixture(scope="session")
def pairs(texts, tmp_path_factory) -> Path:
    """The folder of the pairs of ``texts``."""
    files, tokenizer, _, _ = texts
    folder = tmp_path_factory.mktemp("ids") / "train"
    binarize(tokenizer, files, folder, max_length=60)
    return folder
