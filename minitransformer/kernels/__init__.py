"""Fast kernels: for some rules and some array library, a pair with the same signature and results as the plain one.

`select` is the only way to them: the mode (``simple`` or ``fast``) and the arrays' library decide, pair by pair.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from minitransformer.backend import Array
from minitransformer.errors import ConfigError
from minitransformer.kernels import cupy, numpy
from minitransformer.kernels.cupy.masks import CountedMask
from minitransformer.kernels.precision import computing
from minitransformer.kernels.profile import current
from minitransformer.ops.rule import Rule

__all__ = [
    "FUNCTIONS",
    "KERNELS",
    "MASKS",
    "CountedMask",
    "current_mode",
    "dropout_mask",
    "fused_function",
    "mode",
    "select",
]

LIBRARIES = {"numpy": numpy, "cupy": cupy}
KERNELS = {(rule.name, library): rule for library, fast in LIBRARIES.items() for rule in fast.KERNELS}
FUNCTIONS = {(name, library): each for library, fast in LIBRARIES.items() for name, each in fast.FUNCTIONS.items()}
MASKS = {library: fast.draw_mask for library, fast in LIBRARIES.items()}

_mode: ContextVar[str] = ContextVar("kernels", default="fast")


@contextmanager
def mode(name: str, precision: str = "float32") -> Iterator[None]:
    """Within the block rules run as their plain pairs (``"simple"``) or as fast kernels (``"fast"``), these in
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
    """The kernel of ``rule`` for this library if the mode is ``fast`` and there is one, else ``rule`` itself.

    Within ``profile.profiled`` its calls are timed.
    """
    pair = rule if _mode.get() == "simple" else KERNELS.get((rule.name, xp.__name__), rule)
    profile = current.get()
    return pair if profile is None else profile.watched(pair)


def fused_function(name: str, xp: ModuleType) -> Callable | None:
    """One kernel that does all the work of ``name``, if the mode is ``fast`` and the library has one."""
    return FUNCTIONS.get((name, xp.__name__)) if _mode.get() == "fast" else None


def dropout_mask(
    rule: str, key: tuple[int, ...], site: int, shape: tuple[int, ...], p_drop: float, xp: ModuleType
) -> Array | CountedMask:
    """What `select`'s pair for ``rule`` takes as ``keep``: a boolean array, or a mask that its kernels draw themselves.

    key: seed, update and micro-batch   site: which dropout of the model this is   shape: of the array that is dropped
    """
    mask = MASKS[xp.__name__](rule, key, site, shape, p_drop)
    return mask.array(xp) if isinstance(mask, CountedMask) and _mode.get() == "simple" else mask
