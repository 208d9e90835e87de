"""The source of a student's function, with all that it needs from other cells, as one text that runs by itself."""

import ast
import builtins
import inspect
import linecache
import math
import symtable
from collections.abc import Callable
from typing import Any

import numpy as np

from course.compare import kind
from course.exercise import all_exercises, module_of

NOTEBOOK = "__main__"
"""The module of what a notebook defines."""
KEPT = "mine"
"""The module of a kept function is this, a dot, and the name of its exercise."""
VALUES = (np.generic, int, float, complex, str, bytes, bool, type(None), tuple, list, dict, set)


class NotKept(Exception):
    """The function cannot be kept; the text says which name keeps it from that."""


def standalone_source(function: Callable) -> str:
    """Imports, constants, helpers and the function itself, in an order that runs.

    Raises:
        NotKept: it needs something that has no source, such as an array of another cell.
    """
    collected: dict[str, str] = {}
    _collect(function.__name__, function, names_of(function), collected)
    return "\n\n".join(collected.values()) + "\n"


def names_of(value: Any) -> dict | None:
    """The names around a function or a class of functions: its cells' globals."""
    functions = [each for each in vars(value).values() if inspect.isfunction(each)] if inspect.isclass(value) else []
    return getattr(functions[0] if functions else value, "__globals__", None)


def _collect(name: str, value: Any, names: dict, collected: dict[str, str]) -> None:
    """Put ``value``, known as ``name``, behind what it needs."""
    if name in collected:
        return
    module = getattr(value, "__module__", None)
    if inspect.ismodule(value):
        collected[name] = f"import {value.__name__} as {name}"
    elif (inspect.isroutine(value) or inspect.isclass(value)) and module == NOTEBOOK:
        collected[name] = ""  # a function may call itself
        node, source = _definition(value)
        for needed in _globals_used(source):
            if needed in names:
                _collect(needed, names[needed], names, collected)
            elif not hasattr(builtins, needed):
                raise NotKept(f"it needs `{needed}`, which no cell defines")
        del collected[name]  # and goes to the end
        collected[name] = source if node == name else f"{source}\n\n{name} = {node}"
    elif (inspect.isroutine(value) or inspect.isclass(value) or type(value).__name__ == "ufunc") and module:
        if exercise := exercise_of(value, module):
            collected[KEPT] = f"from course import {KEPT}"
            collected[name] = f'{name} = {KEPT}("{exercise}")'
        else:
            collected[name] = f"from {module} import {value.__name__} as {name}"
    elif isinstance(value, VALUES) and (text := _literal(value)):
        collected[name] = f"{name} = {text}"
    else:
        raise NotKept(f"it needs `{name}`, {kind(value)} from another cell")


def exercise_of(value: Any, module: str) -> str | None:
    """The exercise of a function that came from ``mine``: the student's own, or the solution that stood in for it."""
    package, _, rest = module.partition(".")
    if package == "solutions":
        names = [name for name in all_exercises() if module_of(name.partition(".")[0]) == rest]
        return next((name for name in names if name.endswith(f".{value.__name__}")), None)
    return rest if package == KEPT else None


def _literal(value: Any) -> str | None:
    """Python for a value, if there is a short way to write it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    try:
        return repr(value) if ast.literal_eval(repr(value)) == value else None
    except Exception:  # a list of objects
        return None


def _definition(value: Any) -> tuple[str, str]:
    """The name that its definition binds, and the definition's source."""
    functions = [value] if not inspect.isclass(value) else [f for f in vars(value).values() if inspect.isfunction(f)]
    code = next((inspect.unwrap(f).__code__ for f in functions if hasattr(inspect.unwrap(f), "__code__")), None)
    if code is None:
        raise NotKept(f"`{value.__name__}` has no source")
    if not inspect.isclass(value) and code.co_freevars:
        raise NotKept(f"`{value.__name__}` is made inside another function and needs its `{code.co_freevars[0]}`")
    source = "".join(linecache.getlines(code.co_filename))
    for node in reversed(ast.parse(source).body):
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        if first <= code.co_firstlineno <= node.end_lineno:
            text = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                return node.targets[0].id, text
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                return node.name, text
    raise NotKept(f"`{value.__name__}` is not defined by a `def` of its own")


def _globals_used(source: str) -> list[str]:
    """The names that a definition takes from outside itself."""
    top = symtable.symtable(source, "cell", "exec")
    used = [each.get_name() for each in top.get_symbols() if each.is_referenced() and not each.is_assigned()]
    tables = list(top.get_children())
    while tables:
        table = tables.pop()
        used += [each.get_name() for each in table.get_symbols() if each.is_global()]
        tables += table.get_children()
    return list(dict.fromkeys(used))
