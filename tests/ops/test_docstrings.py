"""The shapes that docstrings of rules promise, bound to the arrays of every case: prose that cannot go false."""

import inspect
import re

import pytest
from cases import CASES, as_tuple

SHAPE = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
PIECE = re.compile(r"([a-z]\w*(?:, [a-z]\w*)*): (.+)")


def promised_shapes(rule) -> list[tuple[str, str, str]]:
    """(name, its description, its shape in words) for each ``name: ... (axes)`` of the forward's docstring."""
    found = []
    for line in (inspect.getdoc(rule.forward) or "").split("\n"):
        for piece in re.split(r" {3,}", line.strip()):
            named, shape = PIECE.fullmatch(piece), SHAPE.search(piece)
            if named and shape:
                found += [(name, named[2], shape[1]) for name in named[1].split(", ")]
    return found


def axes(words: str) -> list[str]:
    return [axis.strip() for axis in words.split(",") if axis.strip()]


def bind(words: str, shape: tuple[int, ...], sizes: dict) -> None:
    """Give each axis name its size; a name or ``...`` that has one already must agree."""
    names = axes(words)
    if names[:1] == ["..."]:
        names, leading = names[1:], len(shape) - len(names) + 1
        assert sizes.setdefault("...", shape[:leading]) == shape[:leading]
        shape = shape[leading:]
    assert len(names) == len(shape), f"({words}) for an array of shape {shape}"
    for name, size in zip(names, shape, strict=True):
        if name.isidentifier():
            assert sizes.setdefault(name, size) == size, f"{name} is {sizes[name]} and {size}"
        else:
            assert eval(name, {}, dict(sizes)) == size, f"{name} must be {size}"


def bound_arrays(case) -> int:
    """Bind all promises of the case's rule; how many arrays were looked at."""
    inputs, options = case.make()
    outputs = list(as_tuple(case.rule.forward(*inputs, **options)[0]))
    parameters = list(inspect.signature(case.rule.forward).parameters)
    arrays = dict(zip(parameters, inputs, strict=False)) | options
    promises = promised_shapes(case.rule)
    for name, _, _ in promises:
        if name not in parameters and name != "outputs":
            arrays[name] = outputs.pop(0)
    sizes = {name: value for name, value in options.items() if not hasattr(value, "shape")}
    count = 0
    for name, description, words in sorted(promises, key=lambda promise: "*" in promise[2]):
        if arrays.get(name) is None:
            continue
        shape = arrays[name].shape
        if "broadcasts to" in description:
            shape = (*sizes["..."], *(sizes[axis] for axis in axes(words)[1:]))[-len(shape) :]
            assert all(size in (1, full) for size, full in zip(arrays[name].shape, shape, strict=True))
        else:
            if "leading axes broadcast" in case.rule.forward.__doc__:
                sizes.pop("...", None)
            bind(words, shape, sizes)
        count += 1
    return count


@pytest.mark.parametrize("case", CASES, ids=str)
def test_docstrings_state_the_shapes_of_the_arrays(case):
    bound_arrays(case)


def test_most_shapes_are_really_compared():
    compared = {case.rule.name for case in CASES if bound_arrays(case) >= 2}
    wanted = {"attention", "layer_norm", "feed_forward", "embedding", "linear", "matmul", "softmax", "log_softmax"}
    assert wanted | {"merge_heads", "cross_entropy", "projection_loss", "residual_dropout_norm"} <= compared
