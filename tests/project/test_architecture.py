"""The structure of the package: which module may import which, and what NumPy users never load."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest
from systems import in_new_process

import minitransformer

PACKAGE = Path(minitransformer.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
FLOORS = {
    **dict.fromkeys(["errors", "retired_keys", "settings", "config", "backend", "cuda_diagnosis", "allocator"], 0),
    **dict.fromkeys(["batch", "blas", "model_config", "workers", "files"], 0),
    **dict.fromkeys(["ops", "text", "figures"], 1),
    **dict.fromkeys(["kernels", "distributed"], 2),
    "autograd": 3,
    **dict.fromkeys(["nn", "optim"], 4),
    "models": 5,
    **dict.fromkeys(["checkpoints", "generation", "evaluation", "planning"], 6),
    **dict.fromkeys(["training", "interop", "pipeline"], 7),
    **dict.fromkeys(["cli", "__main__"], 8),
}
OUTSIDE = {"lessons", "examples", "tests", "benchmarks", "docs"}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imported_names(path: Path) -> set[str]:
    """Every name an import statement of the file asks for, wherever the statement is; relative ones resolved."""
    package = module_name(path).split(".")[: None if path.name == "__init__.py" else -1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def imported_modules(path: Path) -> set[str]:
    """The modules of the package that the file imports: ``from a.b import c`` is a.b.c if that is a file, else a.b."""
    found = {name if name in MODULES else name.rpartition(".")[0] for name in imported_names(path)}
    return (found & set(MODULES)) - {module_name(path)}


def unit(module: str) -> str:
    """The folder (or single file) below the package that a module belongs to; '' is the package itself."""
    return (module.split(".") + [""])[1]


def test_every_folder_stands_on_a_floor():
    assert {unit(module) for module in MODULES} - {""} <= set(FLOORS)


@every_file
def test_a_module_imports_only_its_own_folder_or_a_lower_floor(path):
    here = unit(module_name(path))
    for module in imported_modules(path):
        there = unit(module)
        main_starts_cli = (here, there) == ("__main__", "cli")
        files_of_the_ground_floor = FLOORS.get(there) == FLOORS.get(here) == 0
        own_or_lower = there in (here, "") or FLOORS[there] < FLOORS[here]
        assert here and (own_or_lower or files_of_the_ground_floor or main_starts_cli), module


def test_imports_have_no_cycle():
    graph = {module: imported_modules(path) for module, path in MODULES.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"modules import each other in a circle: {' -> '.join(error.args[1])}")


def test_the_package_imports_nothing_from_outside_it():
    for path in FILES:
        assert not {name.split(".")[0] for name in imported_names(path)} & OUTSIDE, path


def test_no_op_mentions_cupy():
    """The arrays decide the library."""
    for path in (PACKAGE / "ops").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert "cupy" not in path.read_text(encoding="utf-8").lower(), path


def test_layers_ask_the_kernels_for_masks_alone():
    asked = {name for path in (PACKAGE / "nn").glob("*.py") for name in imported_names(path) if ".kernels" in name}
    assert asked == {"minitransformer.kernels.CountedMask", "minitransformer.kernels.dropout_mask"}


TRAINS_A_SMALL_MODEL = """
import sys
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import pad_batch
from minitransformer.training.step import train_step
model = Transformer(ModelConfig(vocab_size=9, n_layers=1, d_model=8, d_ff=8, n_heads=2))
batch = pad_batch([[4, 5]], [[6, 7]])
train_step(model, Adam(model.parameters), [batch], update=1, config=TrainingConfig())
print(*{'cupy', 'torch', 'matplotlib', 'sacrebleu', 'mpi4py'} & set(sys.modules))
"""


def test_training_a_small_model_on_numpy_loads_no_optional_package():
    assert in_new_process(TRAINS_A_SMALL_MODEL).strip() == ""


@every_file
def test_every_public_function_has_type_hints(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))
    for function in public:
        given = function.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg])]
        unhinted = {each.arg for each in arguments if each.annotation is None} - {"self", "cls"}
        assert not unhinted and function.returns is not None, function.name


def test_a_limit_and_a_list_of_choices_are_written_once():
    """Two equal limits of one name, or two equal tuples of five constants or more, would drift apart."""
    written = Counter()
    for node in chain.from_iterable(ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in FILES):
        text = ast.unparse(node) if isinstance(node, ast.Assign | ast.Tuple) else ""
        elements = node.elts if isinstance(node, ast.Tuple) else []
        if text.startswith("MAX_") or len(elements) > 4 and all(isinstance(each, ast.Constant) for each in elements):
            written[text] += 1
    assert [text for text, times in written.items() if times > 1] == []


# The tests themselves, and all other code

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "folder", [PACKAGE, *(TESTS.parent / name for name in ("tests", "examples", "benchmarks", "docs", "lessons"))]
)
def test_a_file_has_at_most_250_lines_and_a_function_at_most_40(folder):
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= (300 if path.name == "one_file.py" else 250), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 40, f"{path}: {node.name}"
