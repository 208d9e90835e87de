"""Whether ops are recorded on the tape: ``no_grad`` turns it off."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_recording: ContextVar[bool] = ContextVar("recording", default=True)


@contextmanager
def no_grad() -> Iterator[None]:
    """Within the block nothing is recorded: results cannot be differentiated, and nothing is kept for backward."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    return _recording.get()
