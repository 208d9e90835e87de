"""``import minitransformer``: every name of the library is there, and nothing is imported before it is asked for."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import minitransformer

TOP = Path(__file__).parents[2]
IMPORT = "import sys; before = set(sys.modules); import minitransformer; print(sorted(set(sys.modules) - before))"


def test_the_import_loads_nothing_but_itself():
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=TOP, capture_output=True, text=True, check=True)
    assert "minitransformer" in done.stdout and "numpy" not in done.stdout and "minitransformer." not in done.stdout


@pytest.mark.parametrize("name", minitransformer.__all__)
def test_an_exported_name_is_that_of_its_module(name):
    module = import_module(f"minitransformer.{minitransformer._MODULE_OF[name]}")
    assert getattr(minitransformer, name) is getattr(module, name)
    assert name in dir(minitransformer)


def test_type_checkers_let_every_exported_name_be_used():
    """Of an ``object``, nothing could be called."""
    assert get_type_hints(minitransformer.__getattr__)["return"] is Any


def test_modules_are_attributes_and_other_names_are_not():
    assert minitransformer.models is import_module("minitransformer.models")
    with pytest.raises(AttributeError, match="'minitransformer' has no attribute 'nothing'"):
        _ = minitransformer.nothing
