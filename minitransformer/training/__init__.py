"""Training: one step, a whole run, checkpoints, their mean, and what a run writes down about itself."""

from minitransformer.training.average import average_checkpoints
from minitransformer.training.checkpoint import Checkpoint, load_checkpoint, load_model, save_checkpoint
from minitransformer.training.corpus import Corpus
from minitransformer.training.folder import RunFolder, newest_checkpoints
from minitransformer.training.ledger import LedgerEntry, ledger
from minitransformer.training.metrics import perplexity, read_metrics
from minitransformer.training.signals import Outcome
from minitransformer.training.step import StepResult, evaluate_loss, train_step
from minitransformer.training.trainer import Trainer

__all__ = [
    "Checkpoint",
    "Corpus",
    "LedgerEntry",
    "Outcome",
    "RunFolder",
    "StepResult",
    "Trainer",
    "average_checkpoints",
    "evaluate_loss",
    "ledger",
    "load_checkpoint",
    "load_model",
    "newest_checkpoints",
    "perplexity",
    "read_metrics",
    "save_checkpoint",
    "train_step",
]
