"""Where the time of an update goes: seconds in every rule, forward and backward separately."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from threading import Lock

from minitransformer.ops.rule import Rule

UPDATE = ("update", "whole")
"""The key of whole updates."""


class Profile:
    """The times of all rules that are applied within `time_update`.

    Attributes:
        seconds, calls: by ``(name, part)``; the part is ``"forward"``, ``"backward"`` or, for anything but a rule,
            ``"whole"``. The times of concurrent threads are summed.

    Args:
        wait: called before every reading of the clock. On a GPU it must synchronize, since kernels run asynchronously.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None):
        self.wait = wait
        self.seconds: Counter[tuple[str, str]] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    @property
    def updates(self) -> int:
        """Whole updates that were timed."""
        return self.calls[UPDATE]

    def per_update(self, threads: int) -> dict[str, dict[str, float]]:
        """``{name: {part: milliseconds}}`` per update, longest first, summed over threads.

        ``everything else`` is what an update of ``threads`` threads took beyond that: Python, sums of gradients,
        waiting for the slower thread.
        """
        milliseconds = {key: 1000.0 * seconds / self.updates for key, seconds in self.seconds.items()}
        rest = threads * milliseconds.pop(UPDATE) - sum(milliseconds.values())
        table: dict[str, dict[str, float]] = {"everything else": {"whole": rest}}
        for (name, part), each in milliseconds.items():
            table.setdefault(name, {})[part] = each
        return dict(sorted(table.items(), key=lambda row: -sum(row[1].values())))

    @contextmanager
    def time_update(self) -> Iterator[None]:
        """Within the block, which is an update, the times of all rules, of dropout masks and of Adam are added."""
        token = current.set(self)
        try:
            with self.measure("update"):
                yield
        finally:
            current.reset(token)

    def watch(self, rule: Rule) -> Rule:
        """The same rule, timed at every call."""
        forward, backward = (self.measure(rule.name, part) for part in ("forward", "backward"))  # as decorators
        fast = rule.inference_forward and forward(rule.inference_forward)
        return replace(rule, forward=forward(rule.forward), backward=backward(rule.backward), inference_forward=fast)

    @contextmanager
    def measure(self, name: str, part: str = "whole") -> Iterator[None]:
        """Add the time of the block, or of each call of a function that this decorates."""
        self.wait()
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wait()
            seconds = time.perf_counter() - began
            with self._lock:
                self.seconds[name, part] += seconds
                self.calls[name, part] += 1


current: ContextVar[Profile | None] = ContextVar("profile", default=None)
"""The profile that is being filled, if any: without one, nothing is called."""
