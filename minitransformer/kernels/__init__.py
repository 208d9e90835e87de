"""Fast twins: for some rules and some library, a pair with the same signature and results that is swapped in whole.

``select`` is the only door: the mode (``simple`` or ``fast``) and the arrays' library decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from minitransformer.backend import library_name
from minitransformer.errors import ConfigError
from minitransformer.kernels.cupy import FUNCTIONS as CUPY_FUNCTIONS
from minitransformer.kernels.cupy import KERNELS as CUPY_KERNELS
from minitransformer.kernels.cupy.masks import CountedMask
from minitransformer.kernels.numpy import FUNCTIONS as NUMPY_FUNCTIONS
from minitransformer.kernels.numpy import KERNELS as NUMPY_KERNELS
from minitransformer.kernels.precision import computing
from minitransformer.kernels.profile import current
from minitransformer.ops.rule import Rule

__all__ = ["FUNCTIONS", "KERNELS", "CountedMask", "select", "current_mode", "fused_function", "mode"]

KERNELS: dict[tuple[str, str], Rule] = {(rule.name, "numpy"): rule for rule in NUMPY_KERNELS}
KERNELS |= {(rule.name, "cupy"): rule for rule in CUPY_KERNELS}
FUNCTIONS: dict[tuple[str, str], Callable] = {(name, "cupy"): each for name, each in CUPY_FUNCTIONS.items()}
FUNCTIONS |= {(name, "numpy"): each for name, each in NUMPY_FUNCTIONS.items()}

_mode: ContextVar[str] = ContextVar("kernels", default="fast")


@contextmanager
def mode(name: str, precision: str = "float32") -> Iterator[None]:
    """Within the block rules run as the readable pairs (``"simple"``) or as their twins (``"fast"``), these in
    ``precision``."""
    if name not in ("simple", "fast"):
        raise ConfigError(f"kernels: mode must be simple or fast, got {name!r}")
    token = _mode.set(name)
    try:
        with computing(precision):
            yield
    finally:
        _mode.reset(token)


def current_mode() -> str:
    return _mode.get()


def select(rule: Rule, xp: ModuleType) -> Rule:
    """The twin of ``rule`` for this library if the mode is ``fast`` and there is one, else ``rule`` itself.

    Within ``profile.profiled`` it comes with a clock.
    """
    pair = rule if _mode.get() == "simple" else KERNELS.get((rule.name, library_name(xp)), rule)
    profile = current.get()
    return pair if profile is None else profile.watched(pair)


def fused_function(name: str, xp: ModuleType) -> Callable | None:
    """The kernel that does the work of ``name`` at once, if the mode is ``fast`` and the library has one."""
    return FUNCTIONS.get((name, library_name(xp))) if _mode.get() == "fast" else None
