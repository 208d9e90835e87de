"""Reverse-mode differentiation: the tape, Tensor, and the rules as functions of tensors."""

from minitransformer.autograd import functions
from minitransformer.autograd.tape import count_leaf_uses, no_grad
from minitransformer.autograd.tensor import Tensor, apply

__all__ = ["Tensor", "apply", "functions", "no_grad", "count_leaf_uses"]
