"""Which checkpoints are of one run: settings that change the parameters stay as they are from its first update on."""

from collections.abc import Iterator
from typing import Any

from minitransformer.config import Config

# Settings that do not change the parameters, up to rounding. Files may move: their contents are compared by the
# fingerprint and by the tokenizer's text.
MAY_CHANGE = {
    "data": set("train_src train_tgt train_ids valid_src valid_tgt tokenizer".split()),
    "training": set(
        "directory init_from threads deterministic_reduce timeout updates log_every skip_nonfinite "
        "validate_every validate_bleu save_every save_minutes keep_checkpoints".split()
    ),
}


def changed_settings(first: Config, other: Config) -> Iterator[tuple[str, Any, Any]]:
    """``(key, value, value of the other)`` of every setting in which two runs, but no two parts of one, may differ."""
    ours, theirs = first.to_dict(), other.to_dict()
    for section in ("model", "data", "training"):
        for name, value in ours[section].items():
            if name not in MAY_CHANGE.get(section, ()) and value != theirs[section].get(name):
                yield f"{section}.{name}", value, theirs[section].get(name)
