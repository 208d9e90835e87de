"""Fast kernels: for some rules and some array library, a pair with the same signature and results as the plain one.

`select` is the only way to them: the mode (``simple`` or ``fast``) and the arrays' library decide, pair by pair.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from minitransformer.backend import Array, get_array_module
from minitransformer.config import PRECISIONS
from minitransformer.errors import ConfigError
from minitransformer.kernels import cupy, numpy
from minitransformer.kernels.cupy.cast import HalfCopy, kept_copy
from minitransformer.kernels.cupy.masks import CountedMask
from minitransformer.kernels.precision import Settings
from minitransformer.kernels.precision import current as settings
from minitransformer.kernels.profile import current as current_profile
from minitransformer.ops.rule import Rule

__all__ = [
    "FUNCTIONS",
    "KERNELS",
    "MASKS",
    "CountedMask",
    "HalfCopy",
    "current_mode",
    "dropout_mask",
    "fused_function",
    "has_kernel",
    "kept_copy",
    "mode",
    "output_projection",
    "select",
]

LIBRARIES = {"numpy": numpy, "cupy": cupy}
KERNELS = {(rule.name, library): rule for library, fast in LIBRARIES.items() for rule in fast.KERNELS}
FUNCTIONS = {(name, library): each for library, fast in LIBRARIES.items() for name, each in fast.FUNCTIONS.items()}
MASKS = {library: fast.draw_mask for library, fast in LIBRARIES.items()}


@contextmanager
def mode(name: str, precision: str = "float32", parameters: Array | None = None) -> Iterator[None]:
    """Within the block rules run as their plain pairs (``"simple"``) or as fast kernels (``"fast"``), these in
    ``precision``.

    parameters: the vector of all of them, which must not change within the block; in half precision kernels then cast
    it once, instead of each parameter where it is used, or not at all where its copy is kept (HalfCopy)
    """
    if name not in ("simple", "fast"):
        raise ConfigError(f"kernels: mode must be simple or fast, got {name!r}")
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    copy = None if parameters is None else kept_copy(parameters) or HalfCopy(parameters)
    token = settings.set(Settings(name, precision, copy, settings.get().kept))
    try:
        yield
    finally:
        settings.reset(token)


def current_mode() -> str:
    return settings.get().mode


def select(rule: Rule, xp: ModuleType) -> Rule:
    """The kernel of ``rule`` for this library if the mode is ``fast`` and there is one, else ``rule`` itself.

    Within ``profile.profiled`` its calls are timed.
    """
    pair = rule if settings.get().mode == "simple" else KERNELS.get((rule.name, xp.__name__), rule)
    profile = current_profile.get()
    return pair if profile is None else profile.watched(pair)


def has_kernel(rule: str, xp: ModuleType) -> bool:
    """Whether `select` has a kernel for the rule of this name."""
    return current_mode() == "fast" and (rule, xp.__name__) in KERNELS


def fused_function(name: str, xp: ModuleType) -> Callable | None:
    """One kernel that does all the work of ``name``, if the mode is ``fast`` and the library has one."""
    return FUNCTIONS.get((name, xp.__name__)) if current_mode() == "fast" else None


def output_projection(table: Array) -> Callable[[Array], Array]:
    """The function hidden E^T, (R, d_model) to logits, (R, V), for the steps of one search; E: (V, d_model)"""
    fast = fused_function("output_projection", get_array_module(table))
    return fast(table) if fast else lambda hidden: hidden @ table.T


def dropout_mask(
    rule: str, key: tuple[int, ...] | Array, site: int, shape: tuple[int, ...], p_drop: float, xp: ModuleType
) -> Array | CountedMask:
    """What `select`'s pair for ``rule`` takes as ``keep``: a boolean array, or a mask that its kernels draw themselves.

    key: seed, update and micro-batch, or on a GPU their `mixed_key` there   site: which dropout of the model this is
    shape: of the array that is dropped
    """
    mask = MASKS[xp.__name__](rule, key, site, shape, p_drop, xp)
    return mask.array(xp) if isinstance(mask, CountedMask) and not has_kernel(rule, xp) else mask
