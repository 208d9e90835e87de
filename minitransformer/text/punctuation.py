"""Punctuation as Moses normalizes it: for training text, and for translations before they are scored."""

from functools import cache
from typing import Any

from minitransformer.errors import require


def normalize_punctuation(line: str, language: str) -> str:
    """The line with straight quotation marks, hyphens and dots for all variants   [Moses, normalize-punctuation.perl]

    A comma beside a closing quotation mark moves to the side where the language has it; spaces before punctuation go.

    language: cs, de, en, es and fr have rules of their own

    Raises:
        MissingPackageError: sacremoses is not installed.
    """
    return _normalizer(language).normalize(line)


@cache
def _normalizer(language: str) -> Any:
    return require("sacremoses", "punctuation", "eval").MosesPunctNormalizer(language)
