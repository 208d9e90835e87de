"""Mutants of the package: at one place an operator, a constant or an index is replaced, by the operators of cosmic-ray.

A mutant is identified by its text and its function, not by line numbers: results outlive changes elsewhere in a file.
"""

import ast
import hashlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

CACHE = Path("runs/mutation/mutants")
FOLDERS = ("ops", "autograd", "optim", "generation", "models")


@dataclass(frozen=True)
class Mutant:
    """In ``function`` the lines ``old`` are replaced by ``new``, both without the indentation of the first.

    file: relative to the root of the repository   function: qualified name, empty at module level
    nth: which of several equal lines of the function, from 0
    """

    file: str
    function: str
    old: str
    new: str
    nth: int = 0

    @property
    def rank(self) -> str:
        """Sorts mutants in a pseudo-random order, in which a mutant keeps its place when others come or go."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()

    def lines(self, source: str) -> range:
        """Line numbers of ``old``, from 0. Raises LookupError if the function has no such line."""
        lines, old = source.splitlines(), self.old.splitlines()
        starts = [
            i
            for i, line in enumerate(lines)
            if line.lstrip() == old[0]
            and lines[i + 1 : i + len(old)] == old[1:]
            and self.function == functions(source)[i]
        ]
        if self.nth >= len(starts):
            raise LookupError(
                f"{self.file}: {self.function or 'the module'} must have the line {self.old!r}; update its entry"
            )
        return range(starts[self.nth], starts[self.nth] + len(old))

    def apply(self, source: str) -> str:
        """The mutated source."""
        lines, place = source.splitlines(), self.lines(source)
        indent = " " * (len(lines[place.start]) - len(lines[place.start].lstrip()))
        lines[place.start : place.stop] = (indent + self.new).splitlines() if self.new else []
        return "\n".join(lines) + "\n"


def all_mutants(folders: tuple[str, ...] = FOLDERS) -> list[Mutant]:
    """Every mutant of these folders of the package, in random order: the first n are a random sample."""
    found: set[Mutant] = set()
    for path in (path for folder in folders for path in sorted(Path("minitransformer", folder).rglob("*.py"))):
        cached = CACHE / f"{path.stem}-{hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:16]}.json"
        if not cached.exists():  # a minute of work for the whole package
            cached.parent.mkdir(parents=True, exist_ok=True)
            cached.write_text(json.dumps([astuple(mutant) for mutant in mutants_of(path)]), encoding="utf-8")
        found.update(Mutant(*fields) for fields in json.loads(cached.read_text(encoding="utf-8")))
    return sorted(found, key=lambda mutant: mutant.rank)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """The mutants of a file that are valid Python and change what is executed."""
    from cosmic_ray.operators.provider import OperatorProvider  # isort: skip (imports parso in the order it needs)
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    provider, source = OperatorProvider(), path.read_text(encoding="utf-8")
    nodes, excluded = list(ast_nodes(get_ast(source))), list(_excluded(source))
    for name in provider:
        if name.startswith("Variable"):  # these need a name to put in
            continue
        operator = provider[name]()
        positions = [(node, *position) for node in nodes for position in operator.mutation_positions(node)]
        for occurrence, (node, start, end) in enumerate(positions):
            is_marker = node.parent is not None and node.parent.type == "parameters"  # the * before keyword-only ones
            if is_marker or any(first <= start and end <= last for first, last in excluded):
                continue
            mutated = mutate_code(source, operator, occurrence)
            if _tree(mutated) not in (None, _tree(source)):
                yield _by_text(path.as_posix(), source, mutated)


@cache
def functions(source: str) -> list[str]:
    """For each line the qualified name of the innermost function or class around it, decorators included."""
    names = [""] * len(source.splitlines())

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
                first = min(each.lineno for each in (child, *child.decorator_list))
                names[first - 1 : child.end_lineno] = [name] * (child.end_lineno - first + 1)
            visit(child, name)

    visit(ast.parse(source), "")
    return names


def _excluded(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """First and last position of what no result depends on: annotations and type aliases, formatted messages."""
    module = ast.parse(source)
    for node in ast.walk(module):
        alias = node in module.body and isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
        alias = alias and isinstance(node.value.op, ast.BitOr)
        for part in (
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            node if isinstance(node, ast.JoinedStr) or alias else None,
        ):
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _tree(source: str) -> str | None:
    """What Python makes of the source; None if that is a SyntaxError."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source, "mutant", "exec")  # finds more errors than ast.parse
            return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


def _by_text(file: str, source: str, mutated: str) -> Mutant:
    before, after = source.splitlines(), mutated.splitlines()
    first = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    while before[-1] == after[-1] and min(len(before), len(after)) > first:
        before.pop(), after.pop()
    while not before[first]:  # cosmic-ray removes a decorator with the empty lines before it
        first += 1
    old, new = ("\n".join(lines[first:]).lstrip() for lines in (before, after))
    function = functions(source)[first]
    nth = 0
    while (mutant := Mutant(file, function, old, new, nth)).lines(source).start != first:
        nth += 1
    return mutant
