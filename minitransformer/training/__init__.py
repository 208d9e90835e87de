"""Training: one update, a whole run, and what a run writes down about itself."""

from minitransformer.training.ablation import AblationEntry, ablation
from minitransformer.training.corpus import Corpus
from minitransformer.training.metrics import perplexity, read_metrics
from minitransformer.training.signals import Outcome
from minitransformer.training.step import StepResult, evaluate_loss, train_step
from minitransformer.training.trainer import Trainer

__all__ = [
    "AblationEntry",
    "Corpus",
    "Outcome",
    "StepResult",
    "Trainer",
    "ablation",
    "evaluate_loss",
    "perplexity",
    "read_metrics",
    "train_step",
]
