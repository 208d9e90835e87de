"""Every exception of the package, and how a missing optional package is reported.

Each exception also derives from the built-in that a caller would expect to catch.
"""

import importlib
from pathlib import Path
from types import ModuleType


class MiniTransformerError(Exception):
    """Base of all errors that a user can cause; the command line prints them as one line and exits with 2."""


class ShapeError(MiniTransformerError, ValueError):
    """An array or a gradient has the wrong shape, dtype or range of values."""


class ConfigError(MiniTransformerError, ValueError):
    """A configuration has an unknown key, a wrong type or a value out of range."""


class DataError(MiniTransformerError, ValueError):
    """A text file, a vocabulary or a batch is invalid."""


class CheckpointError(MiniTransformerError, RuntimeError):
    """A checkpoint is missing, cannot be read or written, or does not fit the model or the run."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is not as training wrote it: cut short, changed, or another kind of file."""


class AutogradError(MiniTransformerError, RuntimeError):
    """An operation that the tape does not support."""


class AnomalyError(MiniTransformerError, FloatingPointError):
    """Within ``detect_anomaly`` a rule gave NaN or infinity; ``leaf`` is the nearest leaf it was computed from."""

    def __init__(self, message: str, leaf: object = None):
        super().__init__(message)
        self.leaf = leaf


class BackendError(MiniTransformerError, RuntimeError):
    """The requested array library or device is not usable here."""


class MissingPackageError(MiniTransformerError, ImportError):
    """An optional package is needed for this command; the message names the extra that installs it."""


class TrainingError(MiniTransformerError, RuntimeError):
    """Training cannot continue, for example because the loss is NaN."""


class RanksError(MiniTransformerError, RuntimeError):
    """The ranks of a job do not agree; all of them raise it with the same message, which names the rank."""


def quote(value: object, longest: int = 100) -> str:
    """A value from outside as a message shows it: its ``repr``, escaped and shortened."""
    try:
        text = repr(value[: longest + 1] if isinstance(value, str | bytes) else value)
    except ValueError:  # Python refuses to print integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= longest else f"{text[:longest]}..."


def printable(text: str, longest: int) -> str:
    """``text`` as one line for a terminal: control characters escaped, and cut to ``longest`` characters."""
    text = " ".join(text[: longest + 1].split("\n"))
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


def install_hint(extra: str) -> str:
    """How to install the packages of an extra of setup.cfg: the remedy at the end of a MissingPackageError."""
    is_checkout = (Path(__file__).parents[1] / "setup.cfg").exists()  # and not a folder of installed packages
    return f'run pip install -e ".[{extra}]"' if is_checkout else f'run pip install "minitransformer[{extra}]"'


def require(module: str, purpose: str, extra: str) -> ModuleType:
    """Import a module of an optional package. ``purpose`` begins the message; ``extra`` installs the package.

    Raises:
        MissingPackageError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(f"{purpose}: {package} must be installed; {install_hint(extra)}") from error
