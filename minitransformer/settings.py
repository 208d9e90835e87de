"""How settings are declared, checked and read: options with a range, sections of options, TOML, ``--set``.

The settings themselves are in `config.py`.
"""

import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from minitransformer.errors import ConfigError, quote
from minitransformer.files import read_bounded
from minitransformer.retired_keys import RETIRED_KEYS

KINDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}

MAX_TOML, MAX_DOTS = 1 << 18, 100
"""Maximum bytes of a file, and maximum dots in a key (or any other line) of it."""

HIGHEST = {int: 2**31 - 1, float: sys.float_info.max}
"""The maximum where an option has none: the largest id for integers, any finite number for floats."""


def option(
    default: Any, meaning: str, *, low: float | None = None, high: float | None = None, choices: tuple = ()
) -> Any:
    """A dataclass field with its meaning and its allowed range (``low <= value <= high``)."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "choices": choices})


class Section:
    """What all sections share: a check of types and ranges at construction."""

    def __post_init__(self):
        for spec in fields(self):
            value = _check(f"{section_name(type(self))}.{spec.name}", getattr(self, spec.name), spec)
            object.__setattr__(self, spec.name, value)


def section_name(section: type) -> str:
    """The name of a section, such as ``model`` for ModelConfig and its subclasses with more options."""
    (own,) = (each for each in section.__mro__ if Section in each.__bases__)
    return own.__name__.removesuffix("Config").lower()


def section_from(section: type, table: object, where: str) -> Any:
    """The ``section`` with the values of a table; error messages begin with ``where``, the file."""
    name = section_name(section)
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: [{name}] must be a table, got {quote(table)}")
    known = [spec.name for spec in fields(section)]
    table = without_retired_keys(name, table, known, where)
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {quote(key)} in [{name}]; known: {', '.join(known)}")
    try:
        return section(**table)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def without_retired_keys(name: str, table: dict, known: Sequence[str], where: str) -> dict:
    """The table without retired keys whose value asks for what is now always done.

    Raises:
        ConfigError: retired keys have other values; the message says for each what to do instead.
    """
    retired = {key: RETIRED_KEYS[f"{name}.{key}"] for key in table if f"{name}.{key}" in RETIRED_KEYS}
    retired = {key: each for key, each in retired.items() if key not in known}  # of the model of an experiment
    wrong = [f"{name}.{key}: {instead}" for key, (ignored, instead) in retired.items() if table[key] != ignored]
    if wrong:
        raise ConfigError(f"{where}: version 0.1.0 was the last with {'; '.join(wrong)}; see docs/changes.md")
    return {key: value for key, value in table.items() if key not in retired}


def describe(config: type) -> list[tuple[str, str, Any, str]]:
    """``(key, type or choices, default, meaning)`` of every setting of ``config``, for ``--help``."""
    rows = []
    for spec in fields(config):
        for entry in fields(spec.default_factory):
            kind = "|".join(entry.metadata["choices"]) or entry.type.__name__
            rows.append((f"{spec.name}.{entry.name}", kind, entry.default, entry.metadata["meaning"]))
    return rows


def read_toml(path: str | Path) -> dict:
    """The tables of a TOML file.

    Raises:
        ConfigError: no such file, not UTF-8 or not TOML.
    """
    try:
        return _parse(read_bounded(path, MAX_TOML, may_be_pipe=True).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: must be UTF-8, got byte 0x{error.object[error.start]:02x}") from error
    except (ValueError, RecursionError) as error:  # thousands of digits and deep nesting raise no TOMLDecodeError
        raise ConfigError(f"{path}: must be TOML: {error}") from error


def _parse(text: str) -> dict:
    """The tables of a text, else ValueError or RecursionError. tomllib's memory is quadratic in the parts of a key."""
    lines = (line for line in text.split("\n") if not line.lstrip().startswith("#"))
    if any(line.count(".") > MAX_DOTS for line in lines):
        raise ValueError(f"a line must have at most {MAX_DOTS} dots")
    return tomllib.loads(text)


def with_settings(tables: dict, settings: Sequence[str]) -> dict:
    """A copy of ``tables`` with each ``section.key=value`` applied; the value is TOML, a bare word is a string."""
    tables = {name: dict(table) for name, table in tables.items()}
    for setting in settings:
        key, equals, text = setting.partition("=")
        section, dot, name = key.strip().partition(".")
        if not equals or not dot or "\n" in setting:
            raise ConfigError(f"--set must look like section.key=value, got {quote(setting)}")
        tables.setdefault(section, {})[name] = _value_of(text.strip(), setting)
    return tables


def _value_of(text: str, setting: str) -> Any:
    try:
        return _parse(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        if text.startswith(('"', "'", "[", "{")):
            raise ConfigError(f"--set must give a word or a TOML value, got {quote(setting)}: {error}") from error
        return text


def _check(key: str, value: Any, spec) -> Any:
    """``value`` if it has the type and range of ``spec`` (an int may stand for a float), else ConfigError."""
    wanted = spec.type
    if type(value) is not wanted and (wanted, type(value)) != (float, int):
        raise ConfigError(f"{key} must be {KINDS[wanted]}, got {quote(value)}")
    limits = spec.metadata
    if limits["choices"] and value not in limits["choices"]:
        raise ConfigError(f"{key} must be one of {', '.join(limits['choices'])}, got {quote(value)}")
    if wanted is str and any(mark in value for mark in "\0\n\r"):
        raise ConfigError(f"{key} must be one line of text, got {quote(value)}")
    if wanted is str and value.startswith("~"):  # only paths do
        value = os.path.expanduser(value)
        if value.startswith("~"):
            raise ConfigError(
                f"{key} must be below a home folder that exists, got {quote(value)}; write ./~ if that is the name"
            )
    high = HIGHEST.get(wanted) if limits["high"] is None else limits["high"]
    # Written as "not inside" so that nan, which compares false with everything, is refused too.
    if limits["low"] is not None and not value >= limits["low"]:
        raise ConfigError(f"{key} must be at least {limits['low']}, got {quote(value)}")
    if high is not None and not value <= high:
        raise ConfigError(f"{key} must be at most {high}, got {quote(value)}")
    return wanted(value)
