"""``detect_anomaly``: stop at the first rule that gives NaN or infinity, as ``torch.autograd.detect_anomaly`` does."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from minitransformer.backend import Array, to_numpy
from minitransformer.errors import AnomalyError

detecting: ContextVar[bool] = ContextVar("detecting", default=False)
"""Whether the code runs within `detect_anomaly`; tested before each check."""


@contextmanager
def detect_anomaly(enabled: bool = True) -> Iterator[None]:
    """Within the block, check the results of every rule, forward and backward; if not ``enabled``, do not check them.

    For debugging: every array is read once more, and on a GPU it is first copied to the host.

    Raises:
        AnomalyError: at the first result that is NaN or infinite; it names the rule.
    """
    token = detecting.set(enabled)
    try:
        yield
    finally:
        detecting.reset(token)


def check_forward(name: str, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
    """Refuse outputs of rule ``name`` that are not finite; ``inputs`` are its tensors."""
    found = next(filter(None, map(first_nonfinite, outputs)), "")
    if not found:
        return
    for i, tensor in enumerate(inputs):
        if given := first_nonfinite(tensor.data):
            raise AnomalyError(f"{name}: input {i} must be finite, got {given}", nearest_leaf([tensor]))
    raise AnomalyError(f"{name}: forward must give finite values for finite inputs, got {found}", nearest_leaf(inputs))


def check_backward(name: str, inputs: Sequence[Any], grads: Sequence[Array]) -> None:
    """Refuse gradients of rule ``name`` that are not finite; ``inputs`` are a Node's."""
    for i, (source, grad) in enumerate(zip(inputs, grads, strict=True)):
        if source.requires_grad and (found := first_nonfinite(grad)):
            raise AnomalyError(
                f"{name}: backward must give finite gradients, got {found} for input {i}", nearest_leaf(inputs)
            )


def first_nonfinite(array: Array) -> str:
    """The first value that is NaN or infinite and its index, such as ``nan at [3, 0]``; empty if there is none."""
    values = to_numpy(array)
    is_finite = np.isfinite(values)
    if is_finite.all():
        return ""
    index = np.argwhere(~is_finite)[0].tolist()
    return f"{float(values[tuple(index)])} at {index}" if index else str(float(values))


def nearest_leaf(inputs: Sequence[Any]) -> Any:
    """The nearest leaf that requires a gradient: the first among the inputs, else among what they were computed from,
    and so on; None if there is none."""
    to_visit, seen = deque(inputs), set()
    while to_visit:
        tensor = to_visit.popleft()
        if tensor.node is None and tensor.requires_grad:
            return tensor
        if tensor.node is not None and tensor.node not in seen:
            seen.add(tensor.node)
            to_visit.extend(tensor.node.inputs)
    return None
