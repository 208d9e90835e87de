"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the project."""

import json
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
RECIPES = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```python\n# (\S+?\.py)(?:, in CASES)?\n(.*?)```", RECIPES, flags=re.DOTALL))
THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from contract import check
from minitransformer.distributed.threads import ThreadCommunicator

entries, meeting = [None] * 3, Barrier(3, timeout=60)
with ThreadPoolExecutor(3) as pool:
    list(pool.map(lambda rank: check(ThreadCommunicator(rank, entries, meeting)), range(3)))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The project with every recipe written into the file that it names."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("minitransformer", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", root)
    for path, text in BLOCKS.items():
        file = root / path
        if path == "tests/cases.py":
            before, found, after = file.read_text(encoding="utf-8").partition("\nCASES = [\n")
            assert found
            text = before + found + text + after
        else:
            assert not file.exists()
        file.write_text(text, encoding="utf-8")
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root}:{root / 'tests'}"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_what_developers_install_asks_for_no_gpu_package_on_macos_which_has_none():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    needed = map(Requirement, setup["options.extras_require"]["dev"].split("\n")[1:])
    of_gpus = [each for each in needed if each.name.startswith(("cupy", "nvidia"))]
    assert len(of_gpus) == 4
    for each in of_gpus:
        assert each.marker.evaluate({"sys_platform": "linux"}) and not each.marker.evaluate({"sys_platform": "darwin"})


def test_every_recipe_is_shorter_than_40_lines():
    recipes = RECIPES.split("\n## ")[2:]  # after the house
    assert len(recipes) == 4
    for recipe in recipes:
        assert sum(code.count("\n") for code in re.findall(r"```python\n(.*?)```", recipe, flags=re.DOTALL)) < 40


def test_the_op_and_the_layer_pass_the_tests_that_they_come_with(copy):
    tests = ("tests/ops/test_gradients.py", "tests/nn/test_gated_feed_forward.py", "-k", "silu or every_rule or finite")
    listed = run(copy, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *tests).stdout
    assert "PASSED tests/ops/test_gradients.py::test_backward_is_the_derivative_of_forward[silu: plain]" in listed
    assert "PASSED tests/nn/test_gated_feed_forward.py::test_its_gradients_are_finite_differences" in listed


def test_the_communicator_of_threads_keeps_the_contract(copy):
    run(copy, "-c", THREADS)


def test_the_task_trains_its_own_kind_of_model(copy):
    """It learns to count: every number but the first is known, so that the loss is near ln(10) / 13, and smoothing."""
    run(copy, "-c", "from counting import trainer; assert trainer.model.layers.layers[0].feed_forward.w3.grad.any()")
    last = json.loads((copy / "runs" / "counting" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["update"] == 60 and last["nll"] < 0.5
