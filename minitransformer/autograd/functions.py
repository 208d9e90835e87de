"""The rules as functions of tensors: ``functions.softmax(x)`` for what has no operator.

Every rule of ops/ is a function by its name, with the arguments of its forward: ``functions.linear(x, weight, bias)``.
In all of them ``mask`` must be boolean and ``p_drop`` a probability; those defined here check more.
"""

import builtins
from collections.abc import Callable
from inspect import signature
from typing import Any

from minitransformer.autograd import checks
from minitransformer.autograd.tensor import Tensor, apply
from minitransformer.backend import Array
from minitransformer.errors import ShapeError
from minitransformer.ops.registry import RULES
from minitransformer.ops.rule import Rule


def __dir__() -> list[str]:
    return list(RULES)


def __getattr__(name: str) -> Callable[..., Any]:
    """The rule ``name`` as a function of tensors."""
    if name not in RULES:
        raise AttributeError(f"functions: there is no rule called {name!r} in ops/")

    def function(*inputs: Tensor | None, **options: Any) -> Any:
        return _apply(name, *inputs, **options)

    _describe(function, RULES[name])
    if not hasattr(builtins, name):  # the sum that functions of this file call is Python's
        globals()[name] = function  # from now on found without this function
    return function


def _describe(function: Callable[..., Any], rule: Rule) -> None:
    """Give a function of tensors the name, the docstring and the signature of its rule's forward."""
    form = signature(rule.forward)
    inputs = [each.replace(annotation=Tensor) for each in form.parameters.values() if each.kind != each.KEYWORD_ONLY]
    options = list(form.parameters.values())[len(inputs) :]
    function.__signature__ = form.replace(parameters=inputs + options, return_annotation=Tensor)
    function.__doc__, function.__module__ = rule.forward.__doc__, __name__
    function.__name__ = function.__qualname__ = rule.name


def _apply(name: str, *inputs: Tensor | None, **options: Any) -> Any:
    """The rule ``name`` of the inputs, after the checks of the options that several rules have."""
    checks.check_boolean(options.get("mask"), name)
    if "p_drop" in options:
        checks.check_probability(options["p_drop"], f"{name}: p_drop")
    return apply(RULES[name], *inputs, **options)


def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    checks.check_at_least_one(k.shape[-2:], "attention: number of keys and d_k")
    return _apply("attention", q, k, v, **options)


def embedding(table: Tensor, *, ids: Array, scale: float = 1.0) -> Tensor:
    checks.check_ids_below(ids, len(table), "embedding: ids")
    return _apply("embedding", table, ids=ids, scale=scale)


def positioned_embedding(table: Tensor, positions: Tensor, *, ids: Array, **options: Any) -> Tensor:
    checks.check_ids_below(ids, len(table), "positioned_embedding: ids")
    checks.check_same_shape(
        (ids.shape[-1], table.shape[1]), positions.shape, "positioned_embedding: rows and positions"
    )
    return _apply("positioned_embedding", table, positions, ids=ids, **options)


def dropout(x: Tensor, *, keep: Array | None, p_drop: float) -> Tensor:
    if keep is not None:
        checks.check_same_shape(x.shape, keep.shape, "dropout: x and keep")
    return _apply("dropout", x, keep=keep, p_drop=p_drop)


def residual_dropout(x: Tensor, sublayer: Tensor, **options: Any) -> Tensor:
    checks.check_same_shape(x.shape, sublayer.shape, "residual_dropout: x and sublayer")
    return _apply("residual_dropout", x, sublayer, **options)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, **options: Any) -> Tensor:
    checks.check_at_least_one(x.shape[-1:], "layer_norm: d_model")
    return _apply("layer_norm", x, gamma, beta, **options)


def residual_dropout_norm(x: Tensor, sublayer: Tensor, gamma: Tensor, beta: Tensor, **options: Any) -> Tensor:
    checks.check_same_shape(x.shape, sublayer.shape, "residual_dropout_norm: x and sublayer")
    checks.check_at_least_one(x.shape[-1:], "residual_dropout_norm: d_model")
    return _apply("residual_dropout_norm", x, sublayer, gamma, beta, **options)


def cross_entropy(logits: Tensor, *, targets: Array, **options: Any) -> tuple[Tensor, Tensor]:
    _check_loss("cross_entropy", logits.shape, logits.shape[-1], targets, options)
    return _apply("cross_entropy", logits, targets=targets, **options)


def projection_loss(x: Tensor, table: Tensor, *, targets: Array, **options: Any) -> tuple[Tensor, Tensor]:
    _check_loss("projection_loss", x.shape, len(table), targets, options)
    return _apply("projection_loss", x, table, targets=targets, **options)


def _check_loss(name: str, shape: tuple[int, ...], n_classes: int, targets: Array, options: dict[str, Any]) -> None:
    checks.check_at_least_one((n_classes,), f"{name}: V")
    checks.check_ids_below(targets, n_classes, f"{name}: targets")
    checks.check_same_shape(shape[:-1], targets.shape, f"{name}: rows and targets")
    checks.check_probability(options.get("label_smoothing", 0.0), f"{name}: label_smoothing")


def split_heads(packed: Tensor, *, n_heads: int, widths: tuple[int, ...]) -> Any:
    if packed.shape[-1] != n_heads * sum(widths):
        raise ShapeError(f"split_heads: last axis must be {n_heads} heads of {widths}, got {packed.shape[-1]}")
    return _apply("split_heads", packed, n_heads=n_heads, widths=widths)


for _name in RULES.keys() & globals().keys():
    _describe(globals()[_name], RULES[_name])


def concatenate(parts: list[Tensor], axis: int = -1) -> Tensor:
    """The parts joined along ``axis``"""
    return _apply("concatenate", *parts, axis=axis)
