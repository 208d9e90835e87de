"""``show``: the engine's own source, printed in the notebook."""

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path

import minitransformer
from course.compare import kind

ROOT = Path(minitransformer.__file__).parents[1]


def show(thing: Callable) -> None:
    """Print the source of a function, method or class, with its file and its first line number above it."""
    try:
        lines, first = inspect.getsourcelines(thing)
        path = Path(inspect.getsourcefile(thing)).resolve()
    except (TypeError, OSError):  # a value, a compiled function, code without a file
        print(f"`show` prints functions and classes written in Python; {kind(thing)} has no such source.")
        return
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    source = textwrap.dedent("".join(lines)).rstrip()
    if _in_notebook():
        from IPython.display import Markdown, display

        # The notebook's own theme colors a fenced block, light or dark.
        display(Markdown(f"`{place}`, line {first}\n\n```python\n{source}\n```"))
    else:
        print(f"{place}, line {first}\n\n{source}\n")


def _in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return hasattr(get_ipython(), "kernel")
