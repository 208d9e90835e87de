"""Which pair computes a rule: the plain one, a fast kernel, or one that the caller puts in their place."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType, ModuleType

from minitransformer.backend import Array, get_array_module
from minitransformer.config import KERNEL_MODES, PRECISIONS
from minitransformer.errors import ConfigError
from minitransformer.kernels import cupy, numpy
from minitransformer.kernels.composites import compose
from minitransformer.kernels.precision import KernelSettings
from minitransformer.kernels.precision import current as settings
from minitransformer.kernels.profile import current as current_profile
from minitransformer.ops.registry import RULES
from minitransformer.ops.rule import Rule

LIBRARIES = {"numpy": numpy, "cupy": cupy}
KERNELS = {(rule.name, library): rule for library, fast in LIBRARIES.items() for rule in fast.KERNELS}
FUNCTIONS = {(name, library): each for library, fast in LIBRARIES.items() for name, each in fast.FUNCTIONS.items()}

Replacements = Mapping[tuple[str, str], Rule]
"""Rules by the name of the rule and of the array library."""

_replaced: ContextVar[Replacements] = ContextVar("replaced", default=MappingProxyType({}))


@contextmanager
def mode(name: str, precision: str = "float32") -> Iterator[None]:
    """Within the block rules run as their plain pairs (``"simple"``) or as fast kernels (``"fast"``), the latter in
    ``precision``."""
    if name not in KERNEL_MODES:
        raise ConfigError(f"kernels: mode must be {' or '.join(KERNEL_MODES)}, got {name!r}")
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    token = settings.set(KernelSettings(name, precision))
    try:
        yield
    finally:
        settings.reset(token)


@contextmanager
def using_kernels(pairs: Replacements) -> Iterator[None]:
    """Within the block each of these pairs computes its rule, in every mode, also where the rule is part of another:
    the kernel of such a composite rule is off, and its plain rule runs with the pair in it.

    pairs: such as ``{("softmax", "numpy"): Rule("softmax", my_forward, my_backward)}``; in full precision

    Raises:
        ConfigError: a pair is not a Rule of that name, or there is no such array library.
    """
    for (rule, library), pair in pairs.items():
        if not isinstance(pair, Rule) or pair.name != rule:
            raise ConfigError(f"using_kernels: the pair for {rule!r} must be a Rule of that name, got {pair!r}")
        if library not in LIBRARIES:
            raise ConfigError(f"using_kernels: the library must be one of {', '.join(LIBRARIES)}, got {library!r}")
    token = _replaced.set({**_replaced.get(), **pairs})
    try:
        yield
    finally:
        _replaced.reset(token)


def select(rule: Rule, xp: ModuleType) -> Rule:
    """The pair that computes ``rule`` on arrays of this library: one of `using_kernels`; or, if the mode is ``fast``
    and there is one, its kernel; else ``rule`` itself.

    Within `Profile.time_update` its calls are timed.
    """
    pair, profile = _pair_for(rule, xp.__name__), current_profile.get()
    return pair if profile is None else profile.watch(pair)


def uses_kernel(rule: str, library: str) -> bool:
    """Whether `select` gives the package's own kernel for the rule of this name."""
    kernel = KERNELS.get((rule, library))
    return kernel is not None and _pair_for(RULES[rule], library) is kernel


def _pair_for(rule: Rule, library: str) -> Rule:
    if replaced := _replaced.get():
        parts = {name: pair for (name, its_library), pair in replaced.items() if its_library == library}
        pair = parts.get(rule.name) or compose(rule, parts)
        if rule.name in parts or pair is not rule:
            return pair
    return KERNELS.get((rule.name, library), rule) if settings.get().mode == "fast" else rule


def fused_function(name: str, xp: ModuleType) -> Callable | None:
    """One kernel that does all the work of ``name``, which is not a rule, if the mode is ``fast`` and there is one."""
    return FUNCTIONS.get((name, xp.__name__)) if settings.get().mode == "fast" else None


def output_projection(hidden: Array, table: Array) -> Array:
    """The logits of a step of decoding, hidden E^T.   hidden: (R, d_model)   table: E, (V, d_model)   y: (R, V)"""
    fast = fused_function("output_projection", get_array_module(table))
    return fast(hidden, table) if fast else hidden @ table.T
