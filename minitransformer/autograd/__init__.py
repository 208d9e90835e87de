"""Reverse-mode automatic differentiation: the tape, Tensor, and the ops as functions of tensors."""

from minitransformer.autograd import functions
from minitransformer.autograd.anomaly import detect_anomaly
from minitransformer.autograd.gradient_check import check_gradient
from minitransformer.autograd.tensor import Accumulate, Tensor, apply, no_grad

__all__ = ["Accumulate", "Tensor", "apply", "check_gradient", "detect_anomaly", "functions", "no_grad"]
