"""Number words for the notebooks, from ``examples/number_words.py``: a checkout has it, an installation has not."""

import importlib.util
from pathlib import Path
from types import ModuleType

from course.exercise import LESSONS


def _module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_example = _module_at(LESSONS.parent / "examples" / "number_words.py")
draw_numbers, english, german = _example.draw_numbers, _example.english, _example.german
