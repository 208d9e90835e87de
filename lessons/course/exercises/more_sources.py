"""A memory may have more positions than the target: a property of all that reads one."""

from course.calls import Trouble
from course.compare import same


def right_only_for_as_many(function, reference, inputs, more, sentence):
    """``sentence``, if the function is right on ``inputs`` and not on ``more``, whose memory is longer."""
    if not same(reference(*inputs), function(*inputs), 1e-6):
        return None
    try:
        return None if same(reference(*more), function(*more), 1e-6) else sentence
    except Trouble as trouble:
        return f"{sentence} {trouble}"
