"""Which checkpoints belong to one run: settings that affect the parameters stay the same from its first update on."""

from collections.abc import Iterator
from typing import Any

from minitransformer.config import Config

# Settings that do not affect the parameters, up to rounding. Files may move: their contents are compared by the
# fingerprint and by the tokenizer's text.
MAY_CHANGE = {
    "data": set("train_src train_tgt train_ids valid_src valid_tgt tokenizer".split()),
    "training": set(
        "directory init_from threads deterministic_reduce timeout updates log_every skip_nonfinite "
        "validate_every validate_bleu save_every save_minutes keep_checkpoints".split()
    ),
}


def changed_settings(first: Config, other: Config) -> Iterator[tuple[str, Any, Any]]:
    """``(key, value, value of the other)`` of every setting that differs and must be the same throughout a run."""
    ours, theirs = first.to_dict(), other.to_dict()
    for section in ("model", "data", "training"):
        for name, value in ours[section].items():
            if name not in MAY_CHANGE.get(section, ()) and value != theirs[section].get(name):
                yield f"{section}.{name}", value, theirs[section].get(name)
