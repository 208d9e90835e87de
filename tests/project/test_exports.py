"""``import minitransformer``: every name of the library is there, and nothing is imported before it is asked for."""

from importlib import import_module
from typing import Any, get_type_hints

import pytest
from systems import in_new_process

import minitransformer

IMPORT = "import sys; before = set(sys.modules); import minitransformer; print(sorted(set(sys.modules) - before))"


def test_the_import_loads_nothing_but_itself():
    loaded = in_new_process(IMPORT)
    assert "minitransformer" in loaded and "numpy" not in loaded and "minitransformer." not in loaded


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
