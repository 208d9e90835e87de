"""Checkpoints: one file, the folder of a run, and the mean of several."""

from minitransformer.checkpoints.average import average_checkpoints
from minitransformer.checkpoints.checkpoint import Checkpoint, load_checkpoint, load_model, save_checkpoint
from minitransformer.checkpoints.run_folder import RunFolder, newest_checkpoints

__all__ = [
    "Checkpoint",
    "RunFolder",
    "average_checkpoints",
    "load_checkpoint",
    "load_model",
    "newest_checkpoints",
    "save_checkpoint",
]
