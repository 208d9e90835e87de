"""Fast twins: for some rules and some library, a pair with the same signature and results that is swapped in whole.

``choose`` is the only door: the mode (``simple`` or ``fast``) and the arrays' library decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from minitransformer.backend import library_name
from minitransformer.errors import ConfigError
from minitransformer.kernels.cupy import FUNCTIONS as CUPY_FUNCTIONS
from minitransformer.kernels.cupy import TWINS as CUPY_TWINS
from minitransformer.kernels.cupy.masks import CountedMask
from minitransformer.kernels.numpy import TWINS as NUMPY_TWINS
from minitransformer.kernels.precision import computing
from minitransformer.kernels.profile import current
from minitransformer.ops.rule import Rule

__all__ = ["FUNCTIONS", "TWINS", "CountedMask", "choose", "current_mode", "function_of", "using"]

TWINS: dict[tuple[str, str], Rule] = {(rule.name, "numpy"): rule for rule in NUMPY_TWINS}
TWINS |= {(rule.name, "cupy"): rule for rule in CUPY_TWINS}
FUNCTIONS: dict[tuple[str, str], Callable] = {(name, "cupy"): each for name, each in CUPY_FUNCTIONS.items()}

_mode: ContextVar[str] = ContextVar("kernels", default="fast")


@contextmanager
def using(mode: str, precision: str = "float32") -> Iterator[None]:
    """Within the block rules run as the readable pairs (``"simple"``) or as their twins (``"fast"``), these in
    ``precision``."""
    if mode not in ("simple", "fast"):
        raise ConfigError(f"kernels: mode must be simple or fast, got {mode!r}")
    token = _mode.set(mode)
    try:
        with computing(precision):
            yield
    finally:
        _mode.reset(token)


def current_mode() -> str:
    return _mode.get()


def choose(rule: Rule, xp: ModuleType) -> Rule:
    """The twin of ``rule`` for this library if the mode is ``fast`` and there is one, else ``rule`` itself.

    Within ``profile.profiled`` it comes with a clock.
    """
    pair = rule if _mode.get() == "simple" else TWINS.get((rule.name, library_name(xp)), rule)
    profile = current.get()
    return pair if profile is None else profile.watched(pair)


def function_of(name: str, xp: ModuleType) -> Callable | None:
    """The kernel that does the work of ``name`` at once, if the mode is ``fast`` and the library has one."""
    return FUNCTIONS.get((name, library_name(xp))) if _mode.get() == "fast" else None
