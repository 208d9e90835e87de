"""Reverse-mode automatic differentiation: the tape, Tensor, and the ops as functions of tensors."""

from minitransformer.autograd import functions
from minitransformer.autograd.anomaly import detect_anomaly
from minitransformer.autograd.gradient_check import check_gradient
from minitransformer.autograd.gradient_sink import GradientSink, count_leaf_uses
from minitransformer.autograd.tensor import Tensor, apply, no_grad

__all__ = [
    "GradientSink",
    "Tensor",
    "apply",
    "check_gradient",
    "count_leaf_uses",
    "detect_anomaly",
    "functions",
    "no_grad",
]
