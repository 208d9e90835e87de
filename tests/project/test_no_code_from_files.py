"""Contents of files are never executed: the package has no pickle, no eval, no shell, and imports no module by data."""

import ast
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
FILES = sorted(path for folder in ("minitransformer", "lessons/course") for path in (TOP / folder).rglob("*.py"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TOP).as_posix())

MODULES = set("pickle cPickle _pickle marshal shelve dill cloudpickle joblib yaml code codeop runpy imp".split())
CALLS = set("eval exec compile __import__ execfile".split())
METHODS = set("os.system os.popen os.execv os.execvp os.spawnv subprocess.getoutput subprocess.getstatusoutput".split())
METHODS |= {"torch.load"}
IMPORTERS = {"minitransformer/__init__.py", "minitransformer/errors.py", "minitransformer/ops/registry.py"}
IMPORTERS |= {"lessons/course/exercise.py"}
"""Modules that import another whose name is computed: one of its own folders, an optional package, an exercise."""

MEANT = {"lessons/course/mine.py": {"exec", "compile"}, "minitransformer/cli/rules.py": {"runpy"}}
"""These run the student's own functions, which `check` kept, and the program that --rules asks for, as SECURITY.md
says."""


def faults_of(source: str, path: str = "") -> list[str]:
    """Statements of a module that could execute the contents of a file."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            faults += [each for each in names if each.split(".")[0] in MODULES]
        elif isinstance(node, ast.Call):
            faults += faults_of_call(node, path)
    return faults


def faults_of_call(call: ast.Call, path: str) -> list[str]:
    function, keywords = ast.unparse(call.func), {each.arg: each.value for each in call.keywords}
    loads, shell = function in ("np.load", "numpy.load"), keywords.get("shell", ast.Constant(False))
    is_named = bool(call.args) and isinstance(call.args[0], ast.Constant)
    faults = {
        function: function in CALLS | METHODS,
        "shell": getattr(shell, "value", True) is not False,
        "allow_pickle": loads and getattr(keywords.get("allow_pickle"), "value", True) is not False,
        "import_module": function.endswith("import_module") and not is_named and path not in IMPORTERS,
    }
    return [fault for fault, is_there in faults.items() if is_there]


@every_file
def test_no_module_can_execute_the_contents_of_a_file(path):
    name = path.relative_to(TOP).as_posix()
    assert set(faults_of(path.read_text(encoding="utf-8"), name)) == MEANT.get(name, set())


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "import yaml.loader",
        "eval(text)",
        "compile(text, '', 'exec')",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=chosen)",
        "os.system(command)",
        "subprocess.run(command, shell=True)",
        "importlib.import_module(header['kind'])",
    ],
)
def test_the_test_itself_finds_what_would_execute_a_file(source):
    assert faults_of(source) != []


def test_what_executes_nothing_is_not_mistaken_for_it():
    harmless = "np.load(path, allow_pickle=False); re.compile(text); model.eval(); import_module('readline')"
    assert faults_of(harmless) == []
