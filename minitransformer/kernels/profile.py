"""Where the time of an update goes: seconds of every rule, forward and backward separately."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import Lock

from minitransformer.ops.rule import Rule

UPDATE = ("update", "whole")
"""The key under which the Trainer times whole updates."""


@dataclass
class Time:
    """``calls`` that took ``seconds`` in all."""

    calls: int = 0
    seconds: float = 0.0


class Profile:
    """The times of all rules that are applied within `profiled`.

    Attributes:
        times: ``(name, part)`` to Time; the part is ``"forward"``, ``"backward"`` or, for what is no rule, ``"whole"``.
            The times of concurrent threads are summed.

    Args:
        wait: called before every reading of the clock. On a GPU it must synchronize, since kernels run asynchronously.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None):
        self.wait = wait
        self.times: dict[tuple[str, str], Time] = {}
        self._lock = Lock()

    @property
    def updates(self) -> int:
        """Whole updates that were timed."""
        return self.times.get(UPDATE, Time()).calls

    def per_update(self, threads: int = 1) -> dict[str, dict[str, float]]:
        """``{name: {part: milliseconds}}`` per update, longest first, summed over threads.

        ``everything else`` is what an update of ``threads`` threads took beyond that: Python, sums of gradients,
        waiting for the slower thread.
        """
        scale = 1000.0 / self.updates
        table: dict[str, dict[str, float]] = {}
        for (name, part), entry in self.times.items():
            if (name, part) != UPDATE:
                table.setdefault(name, {})[part] = scale * entry.seconds
        rest = scale * threads * self.times[UPDATE].seconds - sum(sum(parts.values()) for parts in table.values())
        table["everything else"] = {"whole": rest}
        return dict(sorted(table.items(), key=lambda row: -sum(row[1].values())))

    def watched(self, rule: Rule) -> Rule:
        """The same rule, timed at every call."""
        forward, backward = (self.measuring(rule.name, part) for part in ("forward", "backward"))  # as decorators
        inference_forward = rule.inference_forward and forward(rule.inference_forward)
        return replace(
            rule,
            forward=forward(rule.forward),
            backward=backward(rule.backward),
            inference_forward=inference_forward,
        )

    @contextmanager
    def measuring(self, name: str, part: str) -> Iterator[None]:
        """Add the time of the block."""
        self.wait()
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wait()
            seconds = time.perf_counter() - began
            with self._lock:
                entry = self.times.setdefault((name, part), Time())
                entry.calls += 1
                entry.seconds += seconds


current: ContextVar[Profile | None] = ContextVar("profile", default=None)
"""The profile that is being filled, if any."""


@contextmanager
def profiled(profile: Profile | None) -> Iterator[None]:
    """Within the block every rule that is applied, and what is ``timed``, adds its time to ``profile``."""
    token = current.set(profile)
    try:
        yield
    finally:
        current.reset(token)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Time the block as ``name`` in the current profile; without one, do nothing."""
    profile = current.get()
    if profile is None:
        yield
    else:
        with profile.measuring(name, "whole"):
            yield
