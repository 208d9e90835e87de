"""Fast twins: for some rules and some library, a pair with the same signature and results that is swapped in whole.

``choose`` is the only door: the mode (``simple`` or ``fast``) and the arrays' library decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from minitransformer.backend import library_name
from minitransformer.errors import ConfigError
from minitransformer.kernels.numpy import TWINS as NUMPY_TWINS
from minitransformer.kernels.profile import current
from minitransformer.ops.rule import Rule

TWINS: dict[tuple[str, str], Rule] = {(rule.name, "numpy"): rule for rule in NUMPY_TWINS}

_mode: ContextVar[str] = ContextVar("kernels", default="fast")


@contextmanager
def using(mode: str) -> Iterator[None]:
    """Within the block rules run as the readable pairs (``"simple"``) or as their twins (``"fast"``)."""
    if mode not in ("simple", "fast"):
        raise ConfigError(f"kernels: mode must be simple or fast, got {mode!r}")
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def choose(rule: Rule, xp: ModuleType) -> Rule:
    """The twin of ``rule`` for this library if the mode is ``fast`` and there is one, else ``rule`` itself.

    Within ``profile.profiled`` it comes with a clock.
    """
    pair = rule if _mode.get() == "simple" else TWINS.get((rule.name, library_name(xp)), rule)
    profile = current.get()
    return pair if profile is None else profile.watched(pair)
