"""``guess`` before a result and after it: the two side by side, for the reader alone."""

import json
from typing import Any

from course.compare import describe
from course.mine import folder

_guesses: dict[str, Any] = {}


def guess(name: str, value: Any = ..., *, measured: Any = None) -> None:
    """Note what you expect, ``guess("04.spread", 4)``, and see it beside the result: "you said 4; measured 15.4".

    ``...`` is no guess; nothing needs one.
    """
    if measured is not None:
        said = {**earlier(), **_guesses}.get(name)
        print(f"{'' if said is None else f'you said {describe(said)}; '}measured {describe(measured)}")
    if value is ...:
        return
    _guesses[name] = value
    try:
        path = folder() / "guesses.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**earlier(), name: value}, indent=1, default=str), encoding="utf-8")
    except (OSError, TypeError):  # no folder, or none to write to: it is remembered until the notebook ends
        pass


def earlier() -> dict[str, Any]:
    """The guesses of all lessons, as far as they were kept."""
    try:
        found = json.loads((folder() / "guesses.json").read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
