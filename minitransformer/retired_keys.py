"""Keys of older configs and their new names, for the error message."""

RETIRED_KEYS = {
    "model.kernels": "execution.kernels",
    "training.device": "execution.device",
    "training.precision": "execution.precision",
    "training.reduction": "training.deterministic_reduce (fixed is now true, fast is false)",
    "training.deadline": "training.timeout",
}
"""``section.key`` of a retired key: what to write instead."""

REMOVED_KEYS = {"training.communicator": "auto"}
"""``section.key`` of a key that is gone: its default value, at which it is ignored."""
