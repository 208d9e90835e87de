"""Training: one update, a whole run, and what a run records about itself."""

from minitransformer.training.accumulation import GradientAccumulator
from minitransformer.training.corpus import Corpus
from minitransformer.training.metrics import StepResult, perplexity, read_metrics
from minitransformer.training.signals import Outcome
from minitransformer.training.step import train_step
from minitransformer.training.trainer import Trainer
from minitransformer.training.validation import evaluate_loss

__all__ = [
    "Corpus",
    "GradientAccumulator",
    "Outcome",
    "StepResult",
    "Trainer",
    "evaluate_loss",
    "perplexity",
    "read_metrics",
    "train_step",
]
