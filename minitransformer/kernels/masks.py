"""Dropout masks, in the form that the pair which computes a rule takes."""

from types import ModuleType

from minitransformer.backend import Array
from minitransformer.kernels.cupy.masks import CountedMask
from minitransformer.kernels.profile import current as current_profile
from minitransformer.kernels.selection import LIBRARIES, uses_kernel


def dropout_mask(
    rule: str, key: tuple[int, ...], site: int, shape: tuple[int, ...], p_drop: float, xp: ModuleType
) -> Array | CountedMask:
    """What `select`'s pair for ``rule`` takes as ``keep``: a boolean array, or a mask that its kernels draw themselves.

    key: seed, update and micro-batch   site: which dropout of the model this is   shape: of the array that is dropped
    """
    draw, profile = LIBRARIES[xp.__name__].draw_mask, current_profile.get()
    if profile is not None:
        draw = profile.measure("dropout masks")(draw)
    mask = draw(rule, key, site, shape, p_drop)
    return mask.array(xp) if isinstance(mask, CountedMask) and not uses_kernel(rule, xp.__name__) else mask
