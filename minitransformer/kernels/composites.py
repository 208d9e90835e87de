"""Rules that are composed of others: which ones, and the same rule with other pairs as its parts.

Rules compose as plain functions: feed_forward_forward calls linear_forward and relu_forward. So the parts of a rule can
be read from its code, and its code can run with other functions under these names.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import FunctionType

from minitransformer.ops.rule import Rule


def compose(rule: Rule, parts: dict[str, Rule]) -> Rule:
    """``rule`` computed with the pairs of ``parts`` wherever their rules are part of it; ``rule`` itself if none is."""
    if parts.keys().isdisjoint(rules_within(rule)):
        return rule
    functions = {f"{name}_{way}": getattr(pair, way) for name, pair in parts.items() for way in ("forward", "backward")}
    forward, backward = _with(rule.forward, functions), _with(rule.backward, functions)
    return replace(rule, forward=forward, backward=backward, inference_forward=None)


@cache
def rules_within(rule: Rule) -> frozenset[str]:
    """The names of all rules whose forward is called by that of ``rule``, directly or indirectly.

    >>> from minitransformer.ops.feed_forward import feed_forward
    >>> sorted(rules_within(feed_forward))
    ['dropout', 'linear', 'relu']
    """
    names, to_visit = set(), [rule.forward]
    while to_visit:
        for name, function in _callees(to_visit.pop()):
            if name not in names:
                names.add(name)
                to_visit.append(function)
    return frozenset(name.removesuffix("_forward") for name in names if name.endswith("_forward"))


def _callees(function: Callable) -> Iterator[tuple[str, FunctionType]]:
    """The functions of rules that ``function`` calls, by the names under which it calls them."""
    if not isinstance(function, FunctionType):
        return
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if isinstance(found, FunctionType) and found.__module__.startswith("minitransformer.ops."):
            yield name, found


def _with(function: Callable, others: dict[str, Callable]) -> Callable:
    """A copy of ``function`` that calls ``others`` by these names, and likewise copies of whatever else it calls."""
    if not isinstance(function, FunctionType):
        return function
    called = {name: others[name] if name in others else _with(found, others) for name, found in _callees(function)}
    copy = FunctionType(function.__code__, function.__globals__ | called, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
