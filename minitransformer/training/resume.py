"""Which runs may go on from which checkpoints: the ones whose weights come out as if nothing had happened."""

from __future__ import annotations

from minitransformer.checkpoints.checkpoint import Checkpoint
from minitransformer.config import Config
from minitransformer.errors import CheckpointError

# Keys that may change between two sittings because the weights do not depend on them (on device, precision, threads and
# ranks in their rounding and dropout's draws alone). Files may move: their contents are known again by the fingerprint
# and by the tokenizer's text.
MAY_CHANGE = {
    "data": {"train_src", "train_tgt", "train_ids", "valid_src", "valid_tgt", "tokenizer"},
    "training": {
        "directory",
        "device",
        "precision",
        "threads",
        "communicator",
        "deterministic_reduce",
        "overlap",
        "timeout",
        "updates",
        "log_every",
        "validate_every",
        "validate_bleu",
        "save_every",
        "save_minutes",
        "keep_checkpoints",
    },
}
SECTIONS = ("model", "data", "training")


def check_same_run(checkpoint: Checkpoint, config: Config, tokenizer_text: str, fingerprint: str) -> None:
    """Refuse to go on with other settings, another tokenizer or other data than the checkpoint's.

    Raises:
        CheckpointError: names the first key that differs, with both values.
    """
    stored, wanted = checkpoint.config.to_dict(), config.to_dict()
    remedy = "set it back, or choose another training.directory"
    for section in SECTIONS:
        for name, value in wanted[section].items():
            if name not in MAY_CHANGE.get(section, ()) and value != stored[section][name]:
                raise CheckpointError(
                    f"train: {section}.{name} must be {stored[section][name]!r} to resume from {checkpoint.path}, "
                    f"got {value!r}; {remedy}"
                )
    for what, same in (
        ("tokenizer", checkpoint.tokenizer_text == tokenizer_text),
        ("training data", checkpoint.progress.get("fingerprint") == fingerprint),
    ):
        if not same:
            raise CheckpointError(
                f"train: the {what} must be the one of {checkpoint.path} to resume, got another; {remedy}"
            )
