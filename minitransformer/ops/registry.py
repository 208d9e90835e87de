"""Every rule by its name, found in the modules of this folder: a new op is one file with a Rule in it."""

from importlib import import_module
from pathlib import Path

from minitransformer.ops.rule import Rule


def discover() -> dict[str, Rule]:
    """The rules defined at module level, ``name = Rule("name", ...)``, in every file of this folder.

    Raises:
        ValueError: a rule is assigned to a name other than its own, or two rules share a name.
    """
    rules: dict[str, Rule] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem in ("__init__", "registry"):
            continue
        for name, rule in vars(import_module(f"minitransformer.ops.{path.stem}")).items():
            if not isinstance(rule, Rule):
                continue
            if rule.name != name:
                raise ValueError(f"ops/{path.name}: a rule must have the name of its variable, {name}, got {rule.name}")
            if rules.setdefault(name, rule) is not rule:
                raise ValueError(f"ops/{path.name}: a rule must have a name of its own, got a second one called {name}")
    return rules


RULES = discover()
